// Addresses behind the hash: "#/hosts/host-1?sort=name". Every view and every filter can be linked to.

/** The path's parts, decoded, and the query. */
export function here() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?", 2);
  return {
    parts: path.split("/").filter(Boolean).map(decoded),
    query: new URLSearchParams(query),
  };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** A link to a view. */
export function to(...parts) {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

/** Puts what a view was set to into the address, without leaving the view. Empty values are left out. */
export function remember(values) {
  const { parts, query } = here();
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  history.replaceState(null, "", to(...parts) + (text ? `?${text}` : ""));
}
