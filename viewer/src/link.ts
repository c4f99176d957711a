// Writes and reads links to views. The whole address is in the hash, so that links also work in a page opened from
// disk.

/**
 * `at` is the page, such as ["runs", "0", "12"]. The other parameters belong to the page: filters, the shown version.
 */
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

/** Builds a link to a page. Omits undefined and empty parameters. */
export function linkTo(
  at: (string | number)[],
  parameters: { [name: string]: string | number | undefined } = {},
): string {
  // Encoded twice: once for the path, whose parts may contain a slash, and once as a parameter.
  const path = at.map((part) => encodeURIComponent(encodeURIComponent(part))).join("/");
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== "");
  const rest = given.map(([name, value]) => `&${name}=${encodeURIComponent(String(value))}`);
  return `#at=${path}${rest.join("")}`;
}
