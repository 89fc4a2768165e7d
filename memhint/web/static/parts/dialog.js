// A modal dialog: the browser keeps the focus in it, Escape closes it, and the focus goes back to where it was.

import { fill, freshId, h } from "../lib/dom.js";

/** Opens at once. Returns {element, body, signal, close}; `signal` ends when the dialog does. */
export function openDialog(title) {
  const life = new AbortController();
  const id = freshId("dialog");
  const body = h("div", { classes: "dialog-body" });
  const element = h(
    "dialog",
    { "aria-labelledby": id },
    h(
      "div",
      { classes: "dialog-head" },
      h("h2", { id }, title),
      h("button", { type: "button", classes: "quiet", "aria-label": "Close", onclick: () => element.close() }, "×"),
    ),
    body,
  );
  element.addEventListener("close", () => {
    life.abort();
    element.remove();
  });
  window.addEventListener("hashchange", () => element.close(), { signal: life.signal });
  document.body.append(element);
  element.showModal();
  return {
    element,
    body,
    signal: life.signal,
    close: () => element.close(),
    fill: (...children) => fill(body, ...children),
  };
}
