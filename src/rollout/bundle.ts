// writeBundle(): writes collections as a folder of files. A browser opens it from disk or from any web server.
import { existsSync } from "node:fs";
import { cp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { cannotLoad, invalidOption, type HoldfastError } from "../core/errors.ts";
import type { NumberedEvent } from "../core/event.ts";
import { makeFolder, privateFile } from "../io/private-files.ts";
import type { BundleAbout, BundlePart, BundleRow, BundleCollection, CollectionDetails } from "./collection-view.ts";
import { numberedRollouts } from "./collection-index.ts";
import { summarizeRow } from "./collection-index/summary.ts";
import { createTotals } from "./collection-index/totals.ts";
import { cannotWrite } from "./output.ts";
import type { OnBad } from "./tasks.ts";

export interface BundleOptions {
  /** The folder to write. */
  out: string;
  /** The folder with the built page. */
  page: string;
  version: string;
  collections: readonly CollectionDetails[];
  /** Returns a session's log, or undefined if it does not exist. */
  events(session: string): Promise<NumberedEvent[] | undefined>;
  onRow(): void;
  onBad: OnBad;
  /** Called when a session's log is too large for the page and is omitted. */
  onLongLog(session: string): void;
}

const rowsInChunk = 2_000;
/** Approximate number of characters in a part, and the maximum number in a log. */
const [partLength, longestLog] = [1_000_000, 64_000_000];

/**
 * Writes a bundle while it reads, so that only part of a collection is in memory. `about` is written last, because the
 * page shows nothing until it exists.
 */
export async function writeBundle(options: BundleOptions): Promise<BundleCollection[]> {
  const { out, page, version } = options;
  const collections: BundleCollection[] = [];
  const index = await buildIndexPage(page);
  try {
    await makeRoom(out);
    await cp(page, out, { recursive: true });
    await writeFile(join(out, "index.html"), index, { mode: privateFile });
    for (const details of options.collections) collections.push(await writeCollection(details, options));
    const about: BundleAbout = { version, environments: [], agents: [], models: [], bundle: true, runs: collections };
    await writeData(out, "about", JSON.stringify(about));
  } catch (cause) {
    if (!(cause as NodeJS.ErrnoException | null)?.syscall) throw cause;
    throw cannotWrite(out, cause);
  }
  return collections;
}

const mark = '<meta name="holdfast-data" content="data"';

/** Returns the page, marked to load its data from the folder next to it. */
async function buildIndexPage(page: string): Promise<string> {
  const text = await readFile(join(page, "index.html"), "utf8").catch(() => "");
  const marked = text.replace('<meta name="holdfast-data" content=""', mark);
  if (marked !== text) return marked;
  throw cannotLoad("the viewer is not built; build it with: npm run build");
}

/** Prepares the folder: creates it, or removes an older bundle from it. */
async function makeRoom(out: string): Promise<void> {
  if (!existsSync(out)) {
    makeFolder(out);
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
  invalidOption(`${out} ${why} and does not contain an older bundle; choose another folder for --bundle`);

async function writeCollection(details: CollectionDetails, options: BundleOptions): Promise<BundleCollection> {
  const { out, onBad, onRow } = options;
  const name = (what: string): string => `runs/${details.run}/${what}`;
  const counts = { rows: 0, chunks: 0, parts: 0 };
  const totals = createTotals();
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
    const summary = summarizeRow(finished, number);
    totals.add(summary);
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
  return { ...details, ...counts, totals: totals.result() };
}

/** A BundlePart, assembled from serialized JSON. */
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

/** Writes data as a script, because a page opened from disk may load only scripts. */
async function writeData(out: string, name: string, json: string): Promise<void> {
  const file = join(out, "data", `${name}.js`);
  makeFolder(join(file, ".."));
  await writeFile(file, `holdfastData(${JSON.stringify(name)}, ${JSON.stringify(json)});\n`, { mode: privateFile });
}
