// The API's words as people read them.

import { memory, moment } from "./units.js";

export const HOST_STATE = {
  fresh: "reports in time",
  stale: "no report for three periods: counts as nominal",
  silent: "silent: nothing is promised beyond nominal",
};

export const BOUND = {
  model: "what the forecast of all VMs leaves",
  now: "what is really free now",
  back: "what could be backed if every VM claimed its memory at once",
  node: "what the tightest NUMA node leaves",
  ratio: "the maximum ratio of this host",
  rate: "promises rise slowly",
  pressure: "the host is under pressure",
  stale: "its last report is too old",
};

export const RUNGS = [
  ["admission", "Promise nothing more"],
  ["reporting", "Idle guests report sooner, and at once"],
  ["cache", "Guests give back cold page cache"],
  ["recycler", "Single free pages of idle guests are taken"],
  ["order", "Idle guests report smaller blocks"],
  ["dedup", "Merge where it pays"],
  ["balloon", "Idle best-effort guests shrink"],
  ["swap_out", "Cold guests go to swap"],
  ["migration", "A VM should be moved away"],
];

export const RECLAIM_STATE = {
  queued: "Waiting for the host to begin",
  running: "The guest is giving memory back",
  holding: "Done; what the guest fills again is taken back",
  done: "Done",
  failed: "Failed",
  refused: "Refused",
  expired: "It was not begun in time",
};

export const STOP = {
  done: "all that was asked for",
  exhausted: "the guest has no more to give",
  pressure: "the guest's own memory pressure passed the limit",
  swap: "the guest began to swap",
  deadline: "its time was over",
  interrupted: "it was interrupted",
  wanted: "the guest uses its page cache again",
  lost: "the guest stopped answering",
};

/** What became of a hold. */
export function heldWords(held) {
  const again = `${memory(held.again)} taken back again`;
  return held.stop === null
    ? `until ${moment(held.until)}, ${again}`
    : `ended (${held.stop === "done" ? "its time was over" : (STOP[held.stop] ?? held.stop)}), ${again}`;
}

export const ENDED = new Set(["done", "failed", "refused", "expired"]);

/** The kinds of a VM's memory, in the order in which bars and legends show them. */
export const KINDS = [
  ["used", "In use", "resident on the host and not known to be free in the guest"],
  ["unreported", "Unreported", "free in the guest, still held by the host: this can come back"],
  ["shared", "Shared", "merged with equal pages of other VMs"],
  ["swapped", "Swapped", "on the host's swap"],
  ["reported", "Reported", "free in the guest and given back to the host"],
  ["rest", "Not resident", "never touched, or unknown"],
];

/** A UUID where there is no name: its ends tell it from others, the whole of it is in the title. */
export function shortly(uuid) {
  return uuid.length > 16 ? `${uuid.slice(0, 8)}…${uuid.slice(-4)}` : uuid;
}
