// Finds out where this package was installed from, so that a new project can install the same package.
import { readFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of this package, from src and from dist. */
const ownFolder = fileURLToPath(new URL("../../..", import.meta.url));

interface Manifest {
  version?: string;
  dependencies?: { [name: string]: string };
  devDependencies?: { [name: string]: string };
  optionalDependencies?: { [name: string]: string };
}

/**
 * Returns the dependency that installs this Holdfast in `folder`: a version for the registry, a path for a checkout or
 * a tarball, the address for anything else.
 */
export function ownSpec(folder: string, own = ownFolder): string {
  const toPath = (path: string): string => `file:${relative(resolve(folder), path).split(sep).join("/")}`;
  const isInstalled = basename(dirname(own)) === "node_modules";
  if (!isInstalled) return toPath(resolve(own));
  const { spec, project } = askedBy(own);
  if (spec?.startsWith("file:")) return toPath(resolve(project, spec.slice("file:".length)));
  // An address such as git+https://…, https://…/x.tgz and github:OWNER/NAME has a slash; a version and a tag have none.
  if (spec?.includes("/") && !spec.startsWith("npm:")) return spec;
  return `^${readManifest(own)?.version}`;
}

/** Returns the nearest project above an installed package that depends on it, and the dependency in its package.json. */
function askedBy(own: string): { spec: string | undefined; project: string } {
  let project = dirname(own);
  for (;;) {
    const { dependencies, devDependencies, optionalDependencies } = readManifest(project) ?? {};
    const spec = { ...optionalDependencies, ...devDependencies, ...dependencies }["holdfast"];
    const above = dirname(project);
    if (spec !== undefined || above === project) return { spec, project };
    project = above;
  }
}

function readManifest(folder: string): Manifest | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
  } catch {
    return undefined;
  }
}
