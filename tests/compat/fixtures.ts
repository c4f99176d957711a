// The fixtures of version 0.1: where they are, what that version said of them, and copies to work on.
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { root } from "../files.ts";
import { mended } from "./mended.ts";
import { readJournal, sessionsIn, type Line } from "./journal.ts";

const folder = join(root, "tests/compat/v0.1");

/** A file of the fixtures that stays as it is. */
export const fixture = (...path: string[]): string => join(folder, ...path);

/** The answers of version 0.1, or the right answer where a fault was mended since. */
export function expected<T = Record<string, unknown>>(name: string): T {
  const answers = JSON.parse(readFileSync(fixture("expected", `${name}.json`), "utf8")) as Record<string, unknown>;
  for (const [key, places] of Object.entries(mended[name] ?? {})) Object.assign(answers[key] as object, places);
  return answers as T;
}

/** A copy of everything, with the packages that the examples import. It is removed when the test ends. */
export function copyOfAll(): string {
  const copy = mkdtempSync(join(tmpdir(), "holdfast-compat-"));
  onTestFinished(() => rmSync(copy, { recursive: true, force: true }));
  cpSync(folder, copy, { recursive: true });
  mkdirSync(join(copy, "node_modules"));
  symlinkSync(join(root, "node_modules/zod"), join(copy, "node_modules/zod"));
  return copy;
}

/** A copy of one file. It is removed when the test ends. */
export function copyOf(name: string): string {
  const copy = mkdtempSync(join(tmpdir(), "holdfast-compat-"));
  onTestFinished(() => rmSync(copy, { recursive: true, force: true }));
  cpSync(fixture(name), join(copy, name));
  return join(copy, name);
}

export const journals: ReadonlyMap<string, Line[]> = new Map(
  readdirSync(fixture("journals")).map((name) => [
    name.replace(/\.jsonl$/, ""),
    readJournal(fixture("journals", name)),
  ]),
);

/** A session of the fixtures. `app` is that of a conversation. */
export interface Recorded {
  session: string;
  environment: string;
  app: string | undefined;
}

/** The sessions of some journals, by default of all, without sessions that limits ended. */
export function recordedIn(names = [...journals.keys()]): Recorded[] {
  const wanted = names.filter((name) => name !== "ledger-ended");
  return wanted
    .flatMap((name) => sessionsIn(journals.get(name) ?? []))
    .map(({ session, environment }) => ({ session, environment, app: /^agent:(.*)$/.exec(environment)?.[1] }));
}
