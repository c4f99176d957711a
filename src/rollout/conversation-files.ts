// Reads the files of conversations: queries from a file or a pipe, and saved sessions.
import { access, constants, readFile, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { createInterface } from "node:readline";
import type { SavedConversation } from "../core/sessions.ts";
import type { AgentState } from "../core/shared-state.ts";
import { cannotLoad, HoldfastError, invalidOption, messageOf } from "../core/errors.ts";
import { isObject } from "../core/json.ts";
import { onAbort } from "../io/abort.ts";

export interface Queries {
  state: AgentState;
  queries: string[];
}

/** The content of a file for `--replay`: either queries or a saved session. */
export interface Replay {
  queries?: Queries;
  /** A session to run again. */
  saved?: SavedConversation;
}

export async function readReplay(file: string): Promise<Replay> {
  const read = await readObject(file, "--replay");
  if ("events" in read) return { saved: savedIn(read, file) };
  const { state = {}, queries } = read;
  if (!Array.isArray(queries) || !queries.every((query) => typeof query === "string")) {
    throw cannotLoad(`${file} must contain a list of queries, as in {"state": {}, "queries": ["hello"]}`);
  }
  if (!isObject(state)) throw cannotLoad(`the state in ${file} must be an object, as in {"state": {"visits": 1}, …}`);
  return { queries: { state, queries } };
}

/** Yields the lines of a pipe or a file that are not blank, up to the end or `exit`. */
export async function* readQueries(input: NodeJS.ReadableStream, stopped: AbortSignal): AsyncGenerator<string> {
  const reader = createInterface({ input, terminal: false, crlfDelay: Infinity });
  const stopListening = onAbort(stopped, () => reader.close());
  let failure: unknown;
  input.once("error", (thrown: unknown) => {
    failure = thrown;
    reader.close();
  });
  try {
    for await (const line of reader) {
      const query = line.trim();
      if (query === "exit") return;
      if (query !== "") yield query;
    }
    if (failure !== undefined) throw cannotLoad(`cannot read the input: ${messageOf(failure)}`, failure);
  } finally {
    reader.close();
    stopListening();
  }
}

/** Reads a file for `--resume`. */
export async function readSaved(file: string): Promise<SavedConversation> {
  const read = await readObject(file, "--resume");
  if ("queries" in read && !("events" in read)) {
    throw cannotLoad(`${file} contains queries, not a saved session; use it with --replay`);
  }
  return savedIn(read, file);
}

function savedIn(read: { [field: string]: unknown }, file: string): SavedConversation {
  const { app, user, shared, events } = read;
  const isWhole =
    Array.isArray(events) && events.every((event) => isObject(event) && typeof event["type"] === "string");
  const isOpened = isWhole && (events[0] as { type?: string } | undefined)?.type === "session.opened";
  if (isOpened && typeof app === "string" && typeof user === "string" && isObject(shared)) {
    return read as unknown as SavedConversation;
  }
  throw cannotLoad(`${file} is not a saved session: it must have app, user, shared and events, as --save writes them`);
}

async function readObject(file: string, flag: string): Promise<{ [field: string]: unknown }> {
  const text = await readFile(file, "utf8").catch((cause: NodeJS.ErrnoException) => {
    throw cannotLoad(`cannot read ${file} (${flag}): it ${whyNot(cause)}`, cause);
  });
  let read: unknown;
  try {
    // Editors on Windows start files with a byte order mark, which is not JSON.
    read = JSON.parse(text.replace(/^\uFEFF/, ""));
  } catch (cause) {
    throw cannotLoad(`${file} (${flag}) is not valid JSON: ${messageOf(cause)}`, cause);
  }
  if (isObject(read)) return read;
  throw cannotLoad(`${file} (${flag}) does not contain a JSON object`);
}

/** Refuses a file that cannot be written, before the conversation starts. */
export async function assertWritable(file: string): Promise<void> {
  const refuse = (cause: NodeJS.ErrnoException): never => {
    const message = `cannot save a session to ${file}: its folder ${whyNot(cause)}`;
    throw new HoldfastError("invalid_option", message, { cause });
  };
  if (
    await stat(file).then(
      (found) => found.isDirectory(),
      () => false,
    )
  ) {
    throw invalidOption(`cannot save a session to ${file}: it is a folder; add the name of a file`);
  }
  await access(dirname(file), constants.W_OK).catch(refuse);
}

const reasons: { [code: string]: string } = {
  ENOENT: "does not exist",
  EISDIR: "is a folder",
  EACCES: "cannot be accessed: permission denied (EACCES)",
  ENOTDIR: "does not exist",
};

function whyNot({ code = "", message }: NodeJS.ErrnoException): string {
  return reasons[code] ?? `cannot be accessed: ${message}`;
}
