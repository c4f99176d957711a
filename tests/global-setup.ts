// Gives each test run a folder of its own for what built.ts compiles, and removes it in the end.
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export default async function setup(): Promise<() => Promise<void>> {
  // Within node_modules, so that what is compiled there finds the packages.
  const parent = fileURLToPath(new URL("../node_modules/.cache/holdfast-tests/", import.meta.url));
  await mkdir(parent, { recursive: true });
  const folder = await mkdtemp(join(parent, "run-"));
  process.env["HOLDFAST_BUILT"] = folder;
  return () => rm(folder, { recursive: true, force: true });
}
