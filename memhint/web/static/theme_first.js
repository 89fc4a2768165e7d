// The chosen colours, before the first paint: a module would run after it.
try {
  document.documentElement.dataset.theme = localStorage.getItem("memhint.theme") || "auto";
} catch {
  document.documentElement.dataset.theme = "auto";
}
