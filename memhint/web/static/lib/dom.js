// Elements by function call. Names of VMs come from tenants: everything shown is a text node, never markup.

/** One element. `on…` properties are listeners, true is an empty attribute, null and false are left out. */
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name === "classes" ? "class" : name, value === true ? "" : String(value));
  }
  put(element, children);
  return element;
}

/** Replaces what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren();
  put(element, children);
  return element;
}

function put(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) put(element, child);
    else if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

/** Does `work`, which may move what is in `place`: an element that is moved loses the focus, and gets it back here. */
export function keepFocus(place, work) {
  const before = document.activeElement;
  work();
  if (before !== document.activeElement && place.contains(before)) before.focus({ preventScroll: true });
}

let ids = 0;
/** An id for a label or a description to point at. */
export function freshId(prefix) {
  ids += 1;
  return `${prefix}-${ids}`;
}

/** Says something to screen readers without moving the focus. */
export function announce(text) {
  const place = document.getElementById("announcer");
  place.textContent = "";
  requestAnimationFrame(() => {
    place.textContent = text;
  });
}

/**
 * Answers may overtake each other. Called for each question, it gives a function that says whether the answer may be
 * shown: not where that of a later question is shown already.
 */
export function inTurn() {
  let asked = 0;
  let shown = 0;
  return () => {
    asked += 1;
    const mine = asked;
    return () => {
      if (mine < shown) return false;
      shown = mine;
      return true;
    };
  };
}

/** `work`, at most once in `wait` milliseconds, the last call always heard. Ends with `signal`. */
export function atMostEvery(wait, work, signal) {
  let timer = null;
  let last = -Infinity;
  signal?.addEventListener("abort", () => clearTimeout(timer));
  return () => {
    if (timer !== null || signal?.aborted) return;
    timer = setTimeout(
      () => {
        timer = null;
        last = performance.now();
        work();
      },
      Math.max(0, last + wait - performance.now()),
    );
  };
}
