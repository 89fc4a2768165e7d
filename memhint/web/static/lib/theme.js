// Dark or light: the system's choice, or the switch's. Charts ask for colours here, for a canvas knows no CSS.

const changes = new EventTarget();

export function onThemeChange(listener, signal) {
  changes.addEventListener("change", listener, { signal });
}

export function setUpTheme(select) {
  select.value = document.documentElement.dataset.theme;
  select.addEventListener("change", () => {
    document.documentElement.dataset.theme = select.value;
    try {
      localStorage.setItem("memhint.theme", select.value);
    } catch {
      // a browser that keeps nothing: the choice holds until the page is left
    }
    changes.dispatchEvent(new Event("change"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    changes.dispatchEvent(new Event("change"));
  });
}

let probe = null;
/** The colour that a custom property such as "--line" has now. */
export function colour(name) {
  if (!probe) {
    probe = document.body.appendChild(Object.assign(document.createElement("i"), { hidden: true }));
    probe.style.forcedColorAdjust = "none"; // else all are one where the system sets the colours
  }
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}
