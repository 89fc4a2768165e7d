// Sign in with a token, where the API wants one. It stays in this tab's session storage.

import { h } from "../lib/dom.js";

export function loginView({ place, error, signIn }) {
  const input = h("input", {
    type: "password",
    name: "token",
    required: true,
    autocomplete: "current-password",
    spellcheck: "false",
    "aria-describedby": "token-help",
  });
  const form = h(
    "form",
    {
      classes: "login panel",
      onsubmit: (event) => {
        event.preventDefault();
        if (input.value.trim()) signIn(input.value.trim());
      },
    },
    h("h1", null, "Sign in"),
    error
      ? h(
          "p",
          { classes: "problem", role: "alert" },
          "The API did not take this token. Check that it is whole and has not expired.",
        )
      : null,
    h("label", null, "Token", input),
    h(
      "p",
      { id: "token-help", classes: "small" },
      "A Keystone token (",
      h("code", null, "openstack token issue -f value -c id"),
      "), or one of the API's own token file. It is forgotten when this tab is closed.",
    ),
    h("div", { classes: "buttons" }, h("button", { type: "submit", classes: "primary" }, "Sign in")),
  );
  place.append(form);
  input.focus();
}
