// What the dashboard knows of all hosts: read once, then kept by the stream.

import { get } from "./api.js";
import { follow } from "./stream.js";

const POLL = 15_000; // ms

/**
 * Tells its listeners "hosts" (detail: names that changed, or null for all), "event" (detail: the event), "state"
 * (what `live` says) and "anew": from now on every event is told, and before it some may not have been.
 */
export class Fleet extends EventTarget {
  hosts = new Map();
  live = { state: "connecting", since: null, error: null };
  #changed = null;
  #heard = null;
  #life = null;

  /** Begins, or begins again with another token. */
  start() {
    this.stop();
    this.live = { state: "connecting", since: null, error: null };
    this.dispatchEvent(new CustomEvent("state"));
    this.#life = new AbortController();
    this.#run(this.#life.signal);
  }

  /** Ends, and knows nothing any more: the next token may see less. */
  stop() {
    this.#life?.abort();
    this.#life = null;
    this.hosts = new Map();
    this.#changed = null;
    this.#heard = null;
    this.live = { state: "ended", since: null, error: null };
    this.dispatchEvent(new CustomEvent("state"));
    this.dispatchEvent(new CustomEvent("hosts", { detail: null }));
  }

  async #run(signal) {
    let wait = 1000;
    while (!signal.aborted) {
      try {
        await this.#load(signal);
        wait = 1000;
        const listed = this.#changed; // of the list: it says nothing of events
        await follow({
          signal,
          lastId: () => this.#changed,
          take: (event) => this.#take(event),
          state: (state, error, pause) => {
            this.#tell(state, error, pause);
            if (state === "live" && this.#changed === listed) this.dispatchEvent(new CustomEvent("anew"));
          },
        });
        if (signal.aborted || this.live.error?.status !== 410) return;
        this.#changed = null; // too long away: read everything again
      } catch (error) {
        if (signal.aborted) return;
        if (error.status === 401 || error.status === 403) {
          this.#tell("refused", error);
          return;
        }
        this.#tell("away", error, wait / 1000);
        await new Promise((resolve) => setTimeout(resolve, wait));
        wait = Math.min(30_000, wait * 2);
      }
    }
  }

  async #load(signal) {
    const hosts = new Map();
    let page = await get("/v1/hosts", { limit: 1000 }, signal);
    const changed = page.changed; // of the first page: what changed while the others came is told again
    for (;;) {
      for (const host of page.hosts) hosts.set(host.name, host);
      if (!page.next) break;
      page = await get(page.next, {}, signal);
    }
    signal.throwIfAborted();
    this.hosts = hosts;
    this.#changed = changed;
    this.#heard = Date.now();
    this.dispatchEvent(new CustomEvent("hosts", { detail: null }));
  }

  #take({ type, data, id }) {
    this.#heard = Date.now();
    if (id) this.#changed = id;
    if (type === "hosts") {
      for (const host of data.hosts ?? []) this.hosts.set(host.name, host);
      for (const name of data.deleted ?? []) this.hosts.delete(name);
      const names = new Set([...(data.hosts ?? []).map((host) => host.name), ...(data.deleted ?? [])]);
      this.dispatchEvent(new CustomEvent("hosts", { detail: names }));
    } else if (type === "event") {
      this.dispatchEvent(new CustomEvent("event", { detail: data }));
    }
  }

  #tell(state, error = null, pause = null) {
    const since = state === "live" ? null : (this.live.since ?? this.#heard);
    this.live = { state, since, error, pause };
    this.dispatchEvent(new CustomEvent("state"));
  }

  /** True where the API did not let this token see hosts: a token of one project. */
  get forbidden() {
    return this.live.state === "refused" && this.live.error?.status === 403;
  }

  /** Calls `work` now and then while nothing is told to this token by itself. */
  whileForbidden(work, signal) {
    const timer = setInterval(() => this.forbidden && work(), POLL);
    signal.addEventListener("abort", () => clearInterval(timer));
  }
}
