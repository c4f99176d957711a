// viewerFiles(): serves the viewer's page under /view. adkWebFiles(): serves ADK's web UI, for the server's agents.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { invalidOption } from "../core/errors.ts";
import type { Protocol } from "../core/protocol.ts";
import { pageFiles } from "./page-files.ts";

/** The page's build folder. The path is the same from src and from dist. */
export const viewerFolder = fileURLToPath(new URL("../../dist/viewer", import.meta.url));

/** The page shows text from models. Even if a browser treated some text as code, this policy must stop it. */
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
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  // Browsers must not keep an old page, because the page changes with each version of the server.
  "cache-control": "no-cache",
};

export function viewerFiles(folder: string): Protocol {
  return pageFiles({
    name: "viewer",
    at: "/view",
    folder,
    headers: { ...headers, "content-security-policy": policy },
    remedy: "the viewer is not built; build it with: npm run build",
  });
}

/**
 * Serves ADK's web UI from its folder. `path` has the routes of the `adk` protocol, and `at` is the path of the server.
 */
export function adkWebFiles(folder: string, path: string, at = ""): Protocol {
  const remedy = `${folder} has no index.html; --adk-web names the folder dist/browser of the package @google/adk-devtools`;
  if (!existsSync(join(folder, "index.html"))) throw invalidOption(remedy);
  return pageFiles({
    name: "ADK web UI",
    at: `${path}/dev-ui`,
    folder,
    headers,
    isNested: true,
    own: { "assets/config/runtime-config.json": JSON.stringify({ backendUrl: at + path }) },
    remedy,
  });
}
