// Server-sent events by fetch: EventSource cannot send a token.

import { address, headers, notTheApi, refusal, unreachable } from "./api.js";

const SILENCE = 40_000; // ms; the server says something every 15 s
const LONGEST = 30_000;

/** Parses text/event-stream as it comes: `push(text)` calls `take({type, data, id})` for each whole event,
 * and with the type "id" and null as data where only an id came: how far it has been told. */
export function eventParser(take) {
  let rest = "";
  let event = { type: "message", data: [], id: null };
  const line = (text) => {
    if (text === "") {
      if (event.data.length) take({ type: event.type, data: event.data.join("\n"), id: event.id });
      else if (event.id !== null) take({ type: "id", data: "null", id: event.id });
      event = { type: "message", data: [], id: null };
      return;
    }
    if (text.startsWith(":")) return;
    const colon = text.indexOf(":");
    const field = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? "" : text.slice(colon + 1).replace(/^ /, "");
    if (field === "event") event.type = value;
    else if (field === "data") event.data.push(value);
    else if (field === "id") event.id = value;
  };
  return (text) => {
    const lines = (rest + text).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    lines.forEach(line);
  };
}

/**
 * Stays connected until `signal` ends it, while the page is seen: a browser has six connections to a server for all its
 * tabs, and tabs that nobody looks at would leave none for requests.
 * @param take called with each event, its data parsed
 * @param state called with ("live"), ("paused"), ("away", error, seconds to the next try) or ("refused", error)
 * @param lastId gives the token from which on changes are wanted
 */
export async function follow({ take, state, lastId, signal }) {
  let wait = 1000;
  while (!signal.aborted) {
    if (!seen()) {
      state("paused");
      await untilSeen(signal);
      continue;
    }
    try {
      const hidden = await once(
        take,
        () => {
          wait = 1000;
          state("live");
        },
        lastId(),
        signal,
      );
      if (hidden) continue;
      throw unreachable();
    } catch (error) {
      if (signal.aborted) return;
      if (final(error)) {
        state("refused", error);
        return;
      }
      const pause = wait * (0.75 + Math.random() / 2);
      state("away", error.name === "ApiError" ? error : unreachable(), pause / 1000);
      await sleep(pause, signal);
      wait = Math.min(LONGEST, wait * 2);
    }
  }
}

/** Whether to ask again is of no use. What stands before the API says 400 and 404, too: while it restarts, say. */
function final({ status, code }) {
  return [401, 403, 410].includes(status) || ([400, 404].includes(status) && String(code).startsWith("memhint."));
}

/** One connection. Returns whether it ended because the page is not seen any more. */
async function once(take, opened, lastId, signal) {
  const connection = new AbortController();
  const end = () => connection.abort();
  let hidden = false;
  const look = () => {
    if (seen()) return;
    hidden = true;
    end();
  };
  signal.addEventListener("abort", end);
  document.addEventListener("visibilitychange", look);
  let watchdog = setTimeout(end, SILENCE);
  try {
    const more = { Accept: "text/event-stream" };
    if (lastId) more["Last-Event-ID"] = lastId;
    const response = await fetch(address("/v1/stream"), {
      headers: headers(more),
      signal: connection.signal,
      cache: "no-store",
    });
    if (!response.ok) throw refusal(response, await response.json().catch(() => null));
    if (!(response.headers.get("Content-Type") ?? "").startsWith("text/event-stream")) throw notTheApi();
    opened();
    const push = eventParser((event) => take({ ...event, data: JSON.parse(event.data) }));
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return hidden;
      clearTimeout(watchdog);
      watchdog = setTimeout(end, SILENCE);
      push(value);
    }
  } catch (error) {
    if (hidden) return true;
    throw error;
  } finally {
    clearTimeout(watchdog);
    signal.removeEventListener("abort", end);
    document.removeEventListener("visibilitychange", look);
    connection.abort();
  }
}

const seen = () => document.visibilityState === "visible";

function untilSeen(signal) {
  return new Promise((resolve) => {
    document.addEventListener("visibilitychange", () => seen() && resolve(), { signal });
    signal.addEventListener("abort", resolve);
  });
}

function sleep(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
    window.addEventListener("online", resolve, { once: true });
  });
}
