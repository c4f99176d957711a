// writeBundle(): runs as a folder of files that a browser can open without a server, from a web server or from disk.
import { existsSync } from "node:fs";
import { cp, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { HoldfastError, messageOf } from "../core/errors.ts";
import type { NumberedEvent } from "../core/event.ts";
import type { BundleAbout, BundlePart, BundleRow, BundleRun, RunDetails } from "./collection-view.ts";
import { numberedRollouts } from "./run-index.ts";
import { summaryOf } from "./run-index/summary.ts";
import type { BadRow } from "./tasks.ts";

export interface BundleOptions {
  /** The folder to write. */
  out: string;
  /** The folder of the built page. */
  page: string;
  version: string;
  runs: readonly RunDetails[];
  /** The log of a session; undefined if there is none. */
  events(session: string): Promise<NumberedEvent[] | undefined>;
  onRow(): void;
  onBad(bad: BadRow, file: string): void;
  /** The log of a session is larger than a page could show, and is left out. */
  onLongLog(session: string): void;
}

const rowsInChunk = 2_000;
/** Characters of a part, about, and the most that a log may have. */
const [partLength, longestLog] = [1_000_000, 64_000_000];

/** Writes as it reads: of a run of any length only a part is held. The page finds nothing before all of it is there. */
export async function writeBundle(options: BundleOptions): Promise<BundleRun[]> {
  const { out, page, version } = options;
  const runs: BundleRun[] = [];
  const index = await indexOf(page);
  try {
    await makeRoom(out);
    await cp(page, out, { recursive: true });
    await writeFile(join(out, "index.html"), index);
    for (const details of options.runs) runs.push(await writeRun(details, options));
    const about: BundleAbout = { version, environments: [], agents: [], models: [], bundle: true, runs };
    await writeData(out, "about", JSON.stringify(about));
  } catch (cause) {
    if (!(cause as NodeJS.ErrnoException | null)?.syscall) throw cause;
    throw new HoldfastError("cannot_load", `${out} cannot be written: ${messageOf(cause)}`, { cause });
  }
  return runs;
}

const mark = '<meta name="holdfast-data" content="data"';

/** The page, told that its data lie beside it. */
async function indexOf(page: string): Promise<string> {
  const text = await readFile(join(page, "index.html"), "utf8").catch(() => "");
  const marked = text.replace('<meta name="holdfast-data" content=""', mark);
  if (marked !== text) return marked;
  throw new HoldfastError("cannot_load", "the viewer was not built; npm run build does");
}

/** A folder of our own, new or with an older bundle, which is removed. */
async function makeRoom(out: string): Promise<void> {
  if (!existsSync(out)) {
    await mkdir(out, { recursive: true });
    return;
  }
  if (!(await stat(out)).isDirectory()) throw taken(out, "is a file");
  const there = await readdir(out);
  if (there.length === 0) return;
  const before = there.includes("index.html") ? await readFile(join(out, "index.html"), "utf8") : "";
  if (!before.includes(mark)) throw taken(out, "is not empty");
  await rm(join(out, "data"), { recursive: true, force: true });
}

const taken = (out: string, why: string): HoldfastError =>
  new HoldfastError("invalid_option", `${out} ${why}, and no older bundle: choose another folder for --bundle`);

async function writeRun(details: RunDetails, options: BundleOptions): Promise<BundleRun> {
  const { out, onBad, onRow } = options;
  const name = (what: string): string => `runs/${details.run}/${what}`;
  const counts = { rows: 0, chunks: 0, parts: 0 };
  let [chunk, part]: [BundleRow[], string[]] = [[], []];
  let length = 0;

  async function endChunk(): Promise<void> {
    if (chunk.length === 0) return;
    await writeData(out, name(`rows-${counts.chunks++}`), JSON.stringify(chunk));
    chunk = [];
  }

  async function endPart(): Promise<void> {
    if (part.length === 0) return;
    await writeData(out, name(`part-${counts.parts++}`), `[${part.join(",")}]`);
    [part, length] = [[], 0];
  }

  for await (const finished of numberedRollouts(details.file, onBad)) {
    const { number, row } = finished;
    const summary = summaryOf(finished, number);
    const log = details.sessions && summary.session !== null ? await logText(summary.session, options) : "null";
    const text = `{"row":${number},"content":${JSON.stringify(row)},"events":${log}}` satisfies PartText;
    if (length + text.length > partLength) await endPart();
    part.push(text);
    length += text.length;
    chunk.push({ ...summary, part: counts.parts });
    if (chunk.length === rowsInChunk) await endChunk();
    counts.rows++;
    onRow();
  }
  await endPart();
  await endChunk();
  return { ...details, ...counts };
}

/** A BundlePart, written from texts that are there already. */
type PartText = `{"row":${BundlePart["row"]},"content":${string},"events":${string}}`;

async function logText(session: string, { events, onLongLog }: BundleOptions): Promise<string> {
  const texts: string[] = [];
  let length = 0;
  for (const event of (await events(session)) ?? []) {
    const text = JSON.stringify(event);
    length += text.length;
    if (length > longestLog) {
      onLongLog(session);
      return "null";
    }
    texts.push(text);
  }
  return texts.length === 0 ? "null" : `[${texts.join(",")}]`;
}

/** Data as a script: a page that was opened from disk may load scripts from there, and nothing else. */
async function writeData(out: string, name: string, json: string): Promise<void> {
  const file = join(out, "data", `${name}.js`);
  await mkdir(join(file, ".."), { recursive: true });
  await writeFile(file, `holdfastData(${JSON.stringify(name)}, ${JSON.stringify(json)});\n`);
}
