// The operator's wishes for one VM: changed in a form, looked at in a dry run, then applied.

import { call } from "../lib/api.js";
import { announce, fill, freshId, h } from "../lib/dom.js";
import { counted } from "../lib/units.js";
import { badge } from "./badge.js";
import { openDialog } from "./dialog.js";
import { POLICY_KEYS } from "./policy_keys.js";
import { plainTable, wideTable } from "./plain_table.js";
import { problem } from "./problem.js";

const INHERIT = "";

/** @param done called when new values were stored */
export async function openPolicy(domain, done) {
  const dialog = openDialog(`Policy of ${domain.name}`);
  const path = `/v1/domains/${encodeURIComponent(domain.uuid)}/policy`;
  let answer;
  try {
    answer = await call("GET", path, { signal: dialog.signal });
  } catch (error) {
    if (error.name !== "AbortError") dialog.fill(problem(error));
    return;
  }
  const { policy } = answer.data;
  const controls = new Map();
  const preview = h("button", { type: "submit", value: "dry", classes: "primary", disabled: true }, "Dry run");
  const apply = h("button", { type: "submit", value: "apply", disabled: true, title: "A dry run first" }, "Apply");
  const outcome = h("div", { classes: "outcome", role: "status" });
  const keep = h("input", { type: "checkbox" });
  const ofHost = h("div");
  let edits = 0;

  const rows = POLICY_KEYS.filter((key) => policy[key.name]).map((key) => {
    const now = policy[key.name];
    const control = controlFor(key, now);
    controls.set(key.name, control);
    return h(
      "tr",
      null,
      h("th", { scope: "row" }, h("label", { for: control.id, title: key.help }, key.name)),
      h("td", null, now.value === "" ? "nobody" : now.value, " ", h("span", { classes: "small" }, now.origin)),
      h("td", null, control, key.unit ? ` ${key.unit}` : null),
    );
  });
  const form = h(
    "form",
    {
      oninput: () => {
        edits += 1;
        preview.disabled = !Object.keys(wishes()).length;
        ready(false);
        fill(outcome);
      },
      onsubmit: (event) => {
        event.preventDefault();
        send(event.submitter !== apply);
      },
    },
    h(
      "p",
      null,
      "An operator's wish is stronger than metadata, flavor, aggregate and default. “inherit” takes it back.",
    ),
    wideTable("Policy keys", "Policy", ["Key", "Now", "Operator's wish"], h("tbody", null, rows)),
    ofHost,
    outcome,
    h("div", { classes: "buttons" }, preview, apply),
  );
  dialog.fill(form);
  form.querySelector("select, input")?.focus();

  function ready(yes) {
    apply.disabled = !yes;
    apply.classList.toggle("primary", yes);
    preview.classList.toggle("primary", !yes);
  }

  const wished = Object.entries(policy).filter(([, one]) => one.origin === "operator");

  /** Asks whether what is wished on the host alone shall be the fleet's wish: a host's word is never taken unasked. */
  function askToKeep() {
    const list = wished.map(([name, one]) => `${name}=${one.value}`).join(", ");
    fill(ofHost, h("label", { classes: "inline" }, keep, `Keep what is wished on the host: ${list}`));
  }

  /** Only what was changed, and what is kept: null takes an operator's value back. */
  function wishes() {
    const changed = {};
    for (const [name, control] of controls) {
      const before = policy[name].origin === "operator" ? policy[name].value : INHERIT;
      const value = control.value.trim();
      if (value !== before) changed[name] = value === INHERIT ? null : value;
    }
    if (!keep.checked) return changed;
    return { ...Object.fromEntries(wished.map(([name, one]) => [name, one.value])), ...changed };
  }

  async function send(dryRun) {
    const body = { policy: wishes() };
    const sent = edits;
    preview.disabled = true;
    apply.disabled = true;
    try {
      const { data } = await call("PUT", path, {
        query: dryRun ? { dry_run: "true" } : {},
        body,
        ifMatch: answer.etag,
        signal: dialog.signal,
      });
      if (dryRun) {
        if (edits !== sent) return; // of values that stand there no more
        fill(outcome, changes(data));
        ready(true);
        outcome.scrollIntoView({ block: "end" });
        apply.focus();
        announce(`Dry run: ${counted(data.changes?.length ?? 0, "change")}`);
        return;
      }
      done?.(data.policy);
      if (data.delivery?.taken === false) {
        dialog.fill(undelivered(data.delivery));
        return;
      }
      announce("The policy was stored.");
      dialog.close();
    } catch (error) {
      if (error.code === "memhint.policy.on_host") askToKeep();
      if (error.name !== "AbortError" && (!dryRun || edits === sent)) fill(outcome, problem(error));
    } finally {
      preview.disabled = !Object.keys(wishes()).length;
    }
  }
}

function controlFor(key, now) {
  const id = freshId("policy");
  const own = now.origin === "operator" ? now.value : INHERIT;
  if (key.words && key.low === undefined) {
    return h(
      "select",
      { id },
      h("option", { value: INHERIT, selected: own === INHERIT }, "inherit"),
      key.words.map((word) => h("option", { value: word, selected: own === word }, word)),
    );
  }
  return h("input", {
    id,
    type: "text",
    value: own,
    placeholder: "inherit",
    title: accepted(key),
    maxlength: "64",
    autocomplete: "off",
    spellcheck: "false",
  });
}

function accepted(key) {
  if (key.low !== undefined) return `${key.low} to ${key.high}${key.words.length ? `, ${key.words}` : ""}`;
  if (key.high !== undefined) return `0% to 100%, or 0 to ${key.high} MiB`;
  return "letters, digits and . _ : -";
}

function changes(data) {
  const list = data.changes ?? [];
  const levers = data.levers ?? [];
  return h(
    "div",
    { classes: "result" },
    h("h3", null, badge("planned"), " Dry run: nothing was changed"),
    list.length
      ? plainTable(
          "What would change",
          ["Key", "Before", "After"],
          h(
            "tbody",
            null,
            list.map((one) =>
              h(
                "tr",
                null,
                h("th", { scope: "row" }, one.key),
                h("td", null, shown(one.before)),
                h("td", null, h("strong", null, shown(one.after))),
              ),
            ),
          ),
        )
      : h("p", null, "Nothing would change."),
    levers.length ? h("h4", null, "What the levers would do") : null,
    levers.length
      ? h(
          "ul",
          { classes: "plain" },
          levers.map((one) =>
            h(
              "li",
              null,
              h("b", null, one.lever),
              " → ",
              one.desired ?? "",
              " ",
              badge(one.answer ?? "planned"),
              " ",
              one.reason && one.reason !== "none" ? `${one.reason}: ` : "",
              one.detail ?? "",
            ),
          ),
        )
      : null,
  );
}

/** What was stored and does not hold yet: its host was not reached, or does not take it. */
function undelivered({ refused, detail }) {
  return h(
    "div",
    { classes: "outcome", role: "status" },
    h(
      "div",
      { classes: "result" },
      h(
        "h3",
        null,
        badge(refused ? "refused" : "pending"),
        refused ? " Stored, and not what holds" : " Stored, and not at its host yet",
      ),
      h("p", null, detail),
    ),
  );
}

function shown(value) {
  if (value === null || value === undefined) return "nothing";
  if (typeof value === "object") return `${value.value === "" ? "nobody" : value.value} (${value.origin})`;
  return value === "" ? "nobody" : String(value);
}
