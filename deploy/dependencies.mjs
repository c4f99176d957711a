// Makes dependencies of the optional packages that the image has, so that `npm prune --omit=dev` leaves them. Run in the
// folder of a package.json, while the image is built.
import { readFileSync, writeFileSync } from "node:fs";

const manifest = JSON.parse(readFileSync("package.json", "utf8"));
/** Node has SQLite of its own in the image. */
const left = new Set(["@photostructure/sqlite"]);
/** What the examples import. */
const examples = ["zod"];

const optional = Object.keys(manifest.peerDependenciesMeta).filter((name) => !left.has(name));
for (const name of [...optional, ...examples]) {
  const range = manifest.devDependencies[name];
  if (range === undefined)
    throw new Error(`${name} is not among the devDependencies, so the lock file has no version of it`);
  manifest.dependencies[name] = range;
  delete manifest.devDependencies[name];
}
writeFileSync("package.json", `${JSON.stringify(manifest, undefined, 2)}\n`);
