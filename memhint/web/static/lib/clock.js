// The time of whoever answers: this machine's clock may be set to anything.

const SAME = 5; // seconds; an answer says whole ones, and was under way

/** Seconds by which the answers' clock is ahead of this machine's. */
export let ahead = 0;

/** Takes the time from an answer. */
export function heard(response) {
  const said = Date.parse(response.headers.get("Date") ?? "") / 1000 - Date.now() / 1000;
  if (Math.abs(said - ahead) >= SAME) ahead = Math.abs(said) < SAME ? 0 : said;
}

/** Unix seconds. */
export function now() {
  return Date.now() / 1000 + ahead;
}
