// The application: which view is shown, the state of the connection, sign-in, colours.

import { keepToken, token } from "./lib/api.js";
import { fill, h } from "./lib/dom.js";
import { Fleet } from "./lib/fleet.js";
import { here } from "./lib/route.js";
import { setUpTheme } from "./lib/theme.js";
import { moment } from "./lib/units.js";
import { keepAges } from "./parts/badge.js";
import { problem } from "./parts/problem.js";
import { domainView } from "./views/domain.js";
import { domainsView } from "./views/domains.js";
import { eventsView } from "./views/events.js";
import { fleetView } from "./views/fleet.js";
import { hostView } from "./views/host.js";
import { loginView } from "./views/login.js";
import { planView } from "./views/plan.js";
import { refusalsView } from "./views/refusals.js";

const VIEWS = {
  fleet: (parts) => (parts.length === 1 ? fleetView : null),
  hosts: (parts) => (parts.length === 2 ? hostView : parts.length === 1 ? fleetView : null),
  vms: (parts) => (parts.length === 2 ? domainView : parts.length === 1 ? domainsView : null),
  plan: () => planView,
  refusals: () => refusalsView,
  events: () => eventsView,
};

const main = document.getElementById("main");
const live = document.getElementById("live");
const signOut = document.getElementById("sign-out");
const fleet = new Fleet();
let life = null;
let first = true;

/** Draws the view that the address names. A view gets where to draw, and a signal that ends with it. */
function show() {
  const { parts, query } = here();
  const view = parts.length === 0 ? fleetView : VIEWS[parts[0]]?.(parts);
  life?.abort();
  life = new AbortController();
  markNavigation(parts[0] ?? "fleet");
  const place = fill(main, h("div", { classes: "view" })).firstElementChild;
  const title = (text) => {
    document.title = `${text} · memhint`;
  };
  if (!view) {
    title("No such page");
    place.append(
      h("h1", null, "No such page"),
      h("p", null, "This address leads nowhere. ", h("a", { href: "#/fleet" }, "Go to the fleet"), "."),
    );
  } else {
    const context = { place, title, fleet, parts, query, signal: life.signal };
    try {
      view(context);
    } catch (error) {
      place.append(problem(error));
      throw error;
    }
  }
  if (!first) focusHeading();
  first = false;
}

function focusHeading() {
  const heading = main.querySelector("h1");
  heading?.setAttribute("tabindex", "-1");
  (heading ?? main).focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function markNavigation(name) {
  const current = { hosts: "fleet" }[name] ?? name;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#/${current}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function showState() {
  const { state, since, error, pause } = fleet.live;
  live.dataset.state = state;
  live.title = state === "paused" ? "It goes on when this page is seen." : (error?.detail ?? "");
  if (state === "live") live.textContent = "live";
  else if (state === "connecting") live.textContent = "connecting";
  else if (state === "refused" && error?.status === 403) live.textContent = "not live for this token";
  else if (state === "refused" || state === "ended") live.textContent = "not connected";
  else if (state === "paused") live.textContent = since ? `paused since ${moment(since / 1000)}` : "paused";
  else
    live.textContent = `stale since ${since ? moment(since / 1000) : "the start"}, next try in ${Math.ceil(pause ?? 0)} s`;
}

function askForToken(error) {
  if (main.querySelector("form.login")) return;
  life?.abort();
  life = new AbortController();
  fleet.stop();
  signOut.hidden = true;
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
  const refused = token() !== null;
  keepToken(null);
  document.title = "Sign in · memhint";
  const place = fill(main, h("div", { classes: "view" })).firstElementChild;
  loginView({
    place,
    error: refused ? error : null,
    signIn: (value) => {
      keepToken(value);
      begin();
    },
  });
}

function begin() {
  signOut.hidden = token() === null;
  fleet.start();
  show();
}

setUpTheme(document.getElementById("theme"));
keepAges();
fleet.addEventListener("state", showState);
window.addEventListener("hashchange", () => {
  if (!main.querySelector("form.login")) show();
});
window.addEventListener("memhint:token-wanted", (event) => askForToken(event.detail));
signOut.addEventListener("click", () => {
  keepToken(null);
  location.hash = "#/fleet";
  location.reload();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the hash is the address of a view
  main.focus();
});
begin();
