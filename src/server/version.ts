// packageVersion(): the version of the installed package.
import { readFileSync } from "node:fs";

export function packageVersion(): string {
  const manifest = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as unknown;
  const { version = "" } = manifest as { version?: string };
  return version;
}
