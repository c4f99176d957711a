// A link to a view, written and read: all of it is in the hash, so that it works in a page opened from disk, too.

/** `at` is the page, as in ["runs", "0", "12"]; the rest belongs to the page: filters, the version that is shown. */
export interface Address {
  at: string[];
  parameters: URLSearchParams;
}

export function readAddress(hash: string): Address {
  const parameters = new URLSearchParams(hash.replace(/^#/, ""));
  const at = (parameters.get("at") ?? "").split("/").filter((part) => part !== "");
  parameters.delete("at");
  return { at: at.map(decoded), parameters };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** A link to a page. What is undefined or empty is left out. */
export function linkTo(
  at: (string | number)[],
  parameters: { [name: string]: string | number | undefined } = {},
): string {
  // Twice: once for the path, whose parts may have a slash in them, and once for the parameter that it is.
  const path = at.map((part) => encodeURIComponent(encodeURIComponent(part))).join("/");
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== "");
  const rest = given.map(([name, value]) => `&${name}=${encodeURIComponent(String(value))}`);
  return `#at=${path}${rest.join("")}`;
}
