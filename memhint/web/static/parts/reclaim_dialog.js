// Ask one VM to give back page cache: a dry run first, then the request, then what comes of it, live.

import { call, get } from "../lib/api.js";
import { announce, fill, h } from "../lib/dom.js";
import { to } from "../lib/route.js";
import { MIB, memory } from "../lib/units.js";
import { ENDED, RECLAIM_STATE, STOP, heldWords } from "../lib/words.js";
import { badge } from "./badge.js";
import { openDialog } from "./dialog.js";
import { problem } from "./problem.js";

const POLL = 1000; // ms
const SLOWEST = 15_000; // ms between two attempts while the API does not answer

/** @param done called when a reclaim that was no dry run has ended, and when the dialog is closed: one may go on */
export function openReclaim(domain, done) {
  const dialog = openDialog(`Reclaim memory from ${domain.name}`);
  dialog.signal.addEventListener("abort", () => done?.());
  const amount = h("input", {
    type: "number",
    name: "amount",
    min: "1",
    step: "1",
    inputmode: "numeric",
    placeholder: "all of it",
    "aria-describedby": "amount-help",
  });
  const reason = h("input", {
    type: "text",
    name: "reason",
    required: true,
    maxlength: "200",
    value: "asked for in the dashboard",
  });
  const psi = h("input", {
    type: "number",
    name: "psi",
    min: "0",
    max: "100",
    step: "any",
    value: "10",
    required: true,
  });
  const timeout = h("input", {
    type: "number",
    name: "timeout",
    min: "1",
    max: "3600",
    step: "1",
    value: "60",
    required: true,
  });
  const hold = h("input", {
    type: "number",
    name: "hold",
    min: "0",
    max: "60",
    step: "any",
    inputmode: "decimal",
    placeholder: "not",
    "aria-describedby": "hold-help",
  });
  const dry = h("button", { type: "submit", value: "dry", classes: "primary" }, "Dry run");
  const really = h("button", { type: "submit", value: "go", disabled: true, title: "A dry run first" }, "Reclaim now");
  const outcome = h("div", { classes: "outcome", role: "status" });
  let working = false;
  let ending = null; // of which reclaim the end was asked for
  let undelivered = null; // what became of the newest word, while its host has not taken it
  let shown = "";
  let edits = 0;

  const form = h(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        if (!working) send(event.submitter !== really);
      },
      oninput: () => {
        edits += 1;
        allow(false);
      },
    },
    h(
      "p",
      null,
      `The guest gives back page cache that it has not used recently and reports it to the host at once. What it is using is never asked for. Unreported now: ${memory(domain.unreported)}; reclaimable: ${domain.reclaimable === null ? "unknown" : `at most ${memory(domain.reclaimable)}`}.`,
    ),
    h("label", null, "Amount, MiB", amount),
    h("p", { id: "amount-help", classes: "small" }, "Empty: all of its cold page cache."),
    h("label", null, "Hold, minutes", hold),
    h(
      "p",
      { id: "hold-help", classes: "small" },
      "For so long, an hour at most, what the guest fills again without using it is taken back. Its own memory pressure ends it.",
    ),
    h("label", null, "Why", reason),
    h(
      "details",
      null,
      h("summary", null, "Limits"),
      h(
        "div",
        { classes: "fields" },
        h("label", null, "Stop at memory pressure of, %", psi),
        h("label", null, "Stop after, seconds", timeout),
      ),
    ),
    outcome,
    h("div", { classes: "buttons" }, dry, really),
  );
  dialog.fill(form);

  function allow(yes) {
    really.disabled = !yes;
    really.classList.toggle("primary", yes);
    dry.classList.toggle("primary", !yes);
  }

  async function send(dryRun) {
    working = true;
    dry.disabled = true;
    really.disabled = true;
    shown = "";
    const sent = edits;
    fill(outcome, h("p", null, dryRun ? "Asking what would happen…" : "Sending the request…"));
    const body = {
      domain: domain.uuid,
      bytes: amount.value ? Math.round(Number(amount.value) * MIB) : null,
      reason: reason.value,
      psi_limit: Number(psi.value),
      timeout: Number(timeout.value),
      hold: Math.round(Number(hold.value) * 60),
      dry_run: dryRun,
    };
    try {
      const { data } = await call("POST", "/v1/reclaims", { body, signal: dialog.signal });
      let { reclaim } = data;
      undelivered = notTaken(data.delivery);
      show(reclaim);
      let settled = false;
      let pause = POLL;
      while (!ENDED.has(reclaim.state)) {
        await new Promise((resolve) => setTimeout(resolve, pause));
        if (dialog.signal.aborted) return;
        try {
          ({ reclaim } = await get(`/v1/reclaims/${encodeURIComponent(reclaim.id)}`, {}, dialog.signal));
          if (pause !== POLL) shown = ""; // what stands there is of the failure
          pause = POLL;
          if (reclaim.state !== "queued" && ending !== reclaim.id) undelivered = null;
        } catch (error) {
          // The request goes on whether or not it is looked at. Only a refusal says that looking again is no use.
          if (error.name === "AbortError" || (error.status >= 400 && error.status < 500 && error.status !== 429))
            throw error;
          pause = Math.min(SLOWEST, pause * 2);
          shown = "";
          fill(outcome, problem(error), h("p", null, "The request goes on; asking for its state again…"));
          continue;
        }
        show(reclaim);
        if (reclaim.state === "holding" && !settled) {
          settled = true;
          finish(reclaim, dryRun, sent);
        }
      }
      finish(reclaim, dryRun, sent);
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(outcome, problem(error));
    } finally {
      working = false;
      dry.disabled = false;
    }
  }

  function show(reclaim) {
    // What is the same stays: somebody may be pressing its button, or reading why that failed.
    const now = JSON.stringify([reclaim, undelivered]);
    if (now === shown) return;
    shown = now;
    const ended = ENDED.has(reclaim.state);
    const { verdict } = reclaim;
    const facts = [
      undelivered && !ended
        ? [undelivered.refused ? "Stored, and refused" : "Stored, and not at its host yet", undelivered.detail]
        : null,
      reclaim.dry_run ? null : ["Returned", memory(reclaim.returned)],
      reclaim.held ? ["Held", heldWords(reclaim.held)] : null,
      reclaim.stop ? ["Ended because", STOP[reclaim.stop] ?? reclaim.stop] : null,
      verdict?.detail ? ["Detail", verdict.detail] : null,
      verdict?.reason && verdict.reason !== "none" ? ["Reason", verdict.reason] : null,
    ].filter(Boolean);
    fill(
      outcome,
      h(
        "div",
        { classes: `result ${reclaim.state}` },
        h(
          "h3",
          null,
          badge(reclaim.dry_run && ended ? (verdict?.answer ?? reclaim.state) : reclaim.state),
          " ",
          reclaim.dry_run ? "Dry run: nothing was changed" : RECLAIM_STATE[reclaim.state],
        ),
        ended || reclaim.state === "holding" ? null : h("progress", { "aria-label": "Reclaim under way" }),
        h(
          "dl",
          { classes: "facts" },
          facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
        ),
        verdict?.reason === "consent"
          ? h(
              "p",
              null,
              "Set ",
              h("code", null, "guest_actions"),
              " to ",
              h("code", null, "allow"),
              " in the policy of this VM first: ",
              h("a", { href: `${to("vms", domain.uuid)}?edit=policy` }, "edit its policy"),
              ".",
            )
          : null,
        ended || reclaim.dry_run
          ? null
          : h(
              "button",
              {
                type: "button",
                disabled: ending === reclaim.id,
                onclick: (event) => interrupt(event.target, reclaim),
              },
              reclaim.state === "holding" ? "End the hold" : "Interrupt",
            ),
      ),
    );
  }

  async function interrupt(button, reclaim) {
    button.disabled = true;
    ending = reclaim.id;
    try {
      const path = `/v1/reclaims/${encodeURIComponent(reclaim.id)}`;
      undelivered = notTaken((await call("DELETE", path, { signal: dialog.signal })).data?.delivery);
    } catch (error) {
      if (error.name === "AbortError") return;
      ending = null;
      for (const one of outcome.querySelectorAll(".result > button")) one.disabled = false; // it may be a new one
      outcome.append(problem(error));
    }
  }

  function finish(reclaim, dryRun, sent) {
    const tried = dryRun && reclaim.state === "done" && edits === sent; // what stands there now
    allow(tried);
    if (tried) really.focus();
    announce(
      dryRun
        ? `Dry run: ${reclaim.verdict?.answer ?? reclaim.state}`
        : `${RECLAIM_STATE[reclaim.state]}: returned ${memory(reclaim.returned)}`,
    );
    if (!dryRun) done?.();
  }
}

function notTaken(delivery) {
  return delivery?.taken === false ? delivery : null;
}
