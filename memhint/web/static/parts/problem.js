// What went wrong and what to do next, where it happened.

import { announce, h } from "../lib/dom.js";

/** @param retry called by the button, where trying again may help */
export function problem(error, retry = null) {
  const title = error.title ?? "This did not work";
  announce(`${title}: ${error.message}`);
  return h(
    "div",
    { classes: "problem", role: "alert" },
    h("h3", null, title),
    h("p", null, error.detail ?? error.message),
    next(error),
    error.requestId ? h("p", { classes: "small" }, "Request ", h("code", null, error.requestId)) : null,
    retry ? h("button", { type: "button", onclick: retry }, "Try again") : null,
  );
}

const BY_CODE = {
  "memhint.policy.on_host": "Keep them as the fleet's wishes, or choose for each of them what shall hold.",
  "memhint.reclaim.ended": "There is nothing left to end.",
};

function next(error) {
  const byStatus = {
    403: "This token may not do this. Ask for the role admin, or sign in with another token.",
    404: "It may have gone since the page was read. Go back to the list.",
    409: "Something else changed it meanwhile. Read it again.",
    412: "Somebody changed it since it was read. Close this, look at the new values and try again.",
    429: "Too many requests at once. Wait a moment and try again.",
    503: "The API's store or bus is away. It tells which at /healthz.",
  };
  const hint = BY_CODE[error.code] ?? byStatus[error.status];
  return hint ? h("p", null, hint) : null;
}
