// commandName(): how the user can start this program again: `holdfast` if the shell finds it, else `npx holdfast`.
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

export function commandName(env = process.env): string {
  // npx and npm run put folders of node_modules in front of the user's path.
  const folders = (env["PATH"] ?? "").split(delimiter).filter((folder) => !/node_modules|_npx/.test(folder));
  const names = process.platform === "win32" ? ["holdfast.cmd"] : ["holdfast"];
  const isFound = folders.some((folder) => folder !== "" && names.some((name) => existsSync(join(folder, name))));
  return isFound ? "holdfast" : "npx holdfast";
}
