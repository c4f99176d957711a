// viewerFiles(): serves the viewer's page under /view, from its build folder.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { HoldfastError } from "../core/errors.ts";
import type { Protocol, Reply } from "../core/protocol.ts";

/** The page's build folder. The path is the same from src and from dist. */
export const viewerFolder = fileURLToPath(new URL("../../dist/viewer", import.meta.url));

const types: { [ending: string]: string } = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
};

/**
 * The page shows text written by models. If a browser mistook some text for code, that code must neither run nor reach
 * the network.
 */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const headers = {
  "content-security-policy": policy,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  // The page changes with each version of the server.
  "cache-control": "no-cache",
};

export function viewerFiles(folder: string): Protocol {
  async function replyTo(path: string): Promise<Reply> {
    if (path === "/view") return { status: 302, headers: { ...headers, location: "/view/" } };
    const name = path.slice("/view/".length) || "index.html";
    // Allows only a plain file name, so that nothing can leave the folder.
    const [, ending = ""] = /^[a-z0-9][a-z0-9_-]*\.([a-z]+)$/i.exec(name) ?? [];
    const type = Object.hasOwn(types, ending) ? types[ending] : undefined;
    const text = type === undefined ? undefined : await textIn(join(folder, name));
    if (type !== undefined && text !== undefined) return page(type, text);
    if (name === "index.html") throw missing("the viewer was not built; npm run build does");
    throw missing("the viewer has no such file; its page is at /view/");
  }

  return {
    name: "viewer",
    // With a different method, "/view" may be a tool.
    handle: ({ method, path }) =>
      method === "GET" && (path === "/view" || path.startsWith("/view/")) ? replyTo(path) : undefined,
  };
}

const page = (type: string, text: string): Reply => ({
  status: 200,
  headers: { ...headers, "content-type": type },
  text,
});

async function textIn(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw thrown;
  }
}

const missing = (message: string): HoldfastError => new HoldfastError("not_found", message);
