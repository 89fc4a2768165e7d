// The admin API. Every failure is an ApiError that says what to do next.

import { heard } from "./clock.js";

const BASE = new URL("../", document.baseURI);
const MOUNTED = `${BASE.pathname}v1/`; // how the API's own addresses begin where it knows of a prefix
const TOKEN = "memhint.token";

export class ApiError extends Error {
  constructor(status, code, title, detail, requestId) {
    super(detail || title);
    this.name = "ApiError";
    Object.assign(this, { status, code, title, detail, requestId });
  }
}

let untilLeft = null; // the token in a browser that keeps nothing

export function token() {
  try {
    return sessionStorage.getItem(TOKEN) ?? untilLeft;
  } catch {
    return untilLeft;
  }
}

export function keepToken(value) {
  untilLeft = null;
  try {
    if (value) sessionStorage.setItem(TOKEN, value);
    else sessionStorage.removeItem(TOKEN);
  } catch {
    untilLeft = value;
  }
}

export function headers(more) {
  const all = { Accept: "application/json", "OpenStack-API-Version": "memhint latest", ...more };
  if (token()) all["X-Auth-Token"] = token();
  return all;
}

/** The address of a path such as "/v1/hosts", or of a list's `next`, with a query of what is not empty. */
export function address(path, query = {}) {
  const url = new URL(path.startsWith(MOUNTED) ? path : path.replace(/^\//, ""), BASE);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

/** The answer's body and ETag. Throws ApiError, or AbortError when `signal` says so. */
export async function call(method, path, { query, body, ifMatch, signal } = {}) {
  const more = {};
  if (body !== undefined) more["Content-Type"] = "application/json";
  if (ifMatch) more["If-Match"] = ifMatch;
  let response;
  try {
    response = await fetch(address(path, query), {
      method,
      signal,
      headers: headers(more),
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw unreachable(method);
  }
  heard(response);
  const data = await content(method, response);
  if (!response.ok) throw refusal(response, data);
  return { data, etag: response.headers.get("ETag") };
}

export async function get(path, query, signal) {
  return (await call("GET", path, { query, signal })).data;
}

/** What to do where nobody knows what became of a request: of one that only asks, `asked`. */
function next(method, asked) {
  return method === "GET"
    ? asked
    : "What was to be changed may have been changed all the same: look before you try again.";
}

export function unreachable(method = "GET") {
  return new ApiError(
    0,
    "network",
    "The API does not answer",
    "Check that `memhint api` runs and that this machine reaches it. " +
      next(method, "The dashboard tries again by itself."),
  );
}

/** An ApiError of a response that is none of 2xx. A token that is not taken is told to the whole application. */
export function refusal(response, data) {
  const first = data?.errors?.[0] ?? {};
  const error = new ApiError(
    response.status,
    first.code ?? "unknown",
    first.title ?? `Status ${response.status}`,
    first.detail ?? "The API gave no reason. Its log has more, under the request id.",
    first.request_id ?? response.headers.get("X-Openstack-Request-Id"),
  );
  if (response.status === 401) window.dispatchEvent(new CustomEvent("memhint:token-wanted", { detail: error }));
  return error;
}

/** An answer that came, of something else: the sign-in page of a proxy, say. */
export function notTheApi(method = "GET") {
  return new ApiError(
    0,
    "other",
    "What answered is not the API",
    "Something between this browser and the API answered in its place, such as a proxy that wants a sign-in. " +
      next(method, "Load this page again."),
  );
}

/** The body. null where there is none, and where that of a refusal says nothing. */
async function content(method, response) {
  if (response.status === 204) return null;
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (!response.ok) return null;
    // What says that it is JSON and is none was cut on its way.
    throw isJson(response) ? unreachable(method) : notTheApi(method);
  }
}

function isJson(response) {
  return (response.headers.get("Content-Type") ?? "").startsWith("application/json");
}
