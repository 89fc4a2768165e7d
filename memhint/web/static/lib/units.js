// Figures as people read them. Bytes come in, MiB or GiB go out; null is unknown and is never shown as 0.

import { now } from "./clock.js";

export const MIB = 1024 ** 2;
export const GIB = 1024 ** 3;
export const UNKNOWN = "unknown";

const grouped = new Map();
function decimals(value, digits) {
  if (!grouped.has(digits)) {
    grouped.set(digits, new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  }
  return grouped.get(digits).format(value).replaceAll(",", "\u202f");
}

export function known(value) {
  return value !== null && value !== undefined;
}

/** "512 MiB", "3.4 GiB", "12 480 GiB". */
export function memory(bytes) {
  if (!known(bytes)) return UNKNOWN;
  const size = Math.abs(bytes);
  if (size < GIB) return `${decimals(bytes / MIB, 0)} MiB`;
  return `${decimals(bytes / GIB, size < 100 * GIB ? 1 : 0)} GiB`;
}

/** A cell of a column that says GiB in its heading. */
export function gib(bytes, digits = 2) {
  if (!known(bytes)) return UNKNOWN;
  if (bytes > 0 && bytes / GIB < 0.5 / 10 ** digits) return `<${(1 / 10 ** digits).toFixed(digits)}`;
  return decimals(bytes / GIB, digits);
}

export function count(value) {
  return known(value) ? decimals(value, 0) : UNKNOWN;
}

/** "1 host", "12 hosts": `thing` is the word for one, `things` for several where that is not with an s. */
export function counted(number, thing, things = `${thing}s`) {
  return known(number) ? `${count(number)} ${number === 1 ? thing : things}` : UNKNOWN;
}

export function percent(value, digits = 1) {
  return known(value) ? `${decimals(value, digits)} %` : UNKNOWN;
}

/** "4 s", "3 min", "2 h", "5 d". */
export function span(seconds) {
  if (!known(seconds)) return UNKNOWN;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const calendar = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short" });

/** "14:03:21", with the day where it is not today. */
export function moment(at) {
  if (!known(at)) return UNKNOWN;
  const date = new Date(at * 1000);
  const today = new Date().toDateString() === date.toDateString();
  return today ? clock.format(date) : `${calendar.format(date)} ${clock.format(date)}`;
}

/** "12 s ago"; "now" for a clock a little ahead of ours. */
export function ago(at) {
  if (!known(at)) return UNKNOWN;
  const age = now() - at;
  return age < 1 ? "now" : `${span(age)} ago`;
}

/** The sum of what is known, and how many were not; null when nothing was. */
export function sum(values) {
  let total = 0;
  let seen = 0;
  let missing = 0;
  for (const value of values) {
    if (known(value)) {
      total += value;
      seen += 1;
    } else missing += 1;
  }
  return { total: seen ? total : null, missing };
}

/** Percent of the hours in which a promise held, rounded down: never a hundred while one did not. */
export function heldOf(kept) {
  return Math.floor((10000 * kept.held) / kept.hours) / 100;
}
