// pageFiles(): serves the files of a web page from its build folder.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { HoldfastError } from "../core/errors.ts";
import type { Protocol, Reply } from "../core/protocol.ts";

const types: { [ending: string]: string } = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  json: "application/json",
  svg: "image/svg+xml",
};

export interface PageFilesOptions {
  name: string;
  /** The page's path, without a slash at the end. */
  at: string;
  folder: string;
  headers: { [name: string]: string };
  /** Folders inside the folder are served too. Default: only files directly in it. */
  isNested?: boolean;
  /** Contents of files that replace the folder's files, by name. */
  own?: { readonly [name: string]: string };
  /** What the user can do if the page itself is missing. */
  remedy: string;
}

export function pageFiles({ name, at, folder, headers, isNested, own = {}, remedy }: PageFilesOptions): Protocol {
  // Allows only plain names, so that nothing can leave the folder.
  const plain = isNested ? /^(?:\w[\w-]*\/)*\w[\w-]*\.([a-z]+)$/i : /^[a-z0-9][a-z0-9_-]*\.([a-z]+)$/i;

  async function replyTo(path: string): Promise<Reply> {
    if (path === at) return { status: 302, headers: { ...headers, location: `${at}/` } };
    const file = path.slice(at.length + 1) || "index.html";
    const [, ending = ""] = plain.exec(file) ?? [];
    const type = Object.hasOwn(types, ending) ? types[ending] : undefined;
    const text = type === undefined ? undefined : (own[file] ?? (await textIn(join(folder, file))));
    if (type !== undefined && text !== undefined) {
      return { status: 200, headers: { ...headers, "content-type": type }, text };
    }
    const why = file === "index.html" ? remedy : `the ${name} has no such file; open ${at}/ instead`;
    throw new HoldfastError("not_found", why);
  }

  return {
    name,
    // Serves only GET, because the path may also be a tool, which is called with POST.
    handle: ({ method, path }) =>
      method === "GET" && (path === at || path.startsWith(`${at}/`)) ? replyTo(path) : undefined,
  };
}

async function textIn(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw thrown;
  }
}
