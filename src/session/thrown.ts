// Describes an error from an author's code, such as a tool or a callback, for the log. The description has the message,
// the line in the author's code, and the author's part of the stack trace.
import { basename, isAbsolute, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { ellipsis } from "../core/ellipsis.ts";
import { isHoldfastError, messageOf, type ErrorCode } from "../core/errors.ts";
import type { Event, Thrown } from "../core/event.ts";

const longestError = 500;
const longestStack = 4_000;
const longestRead = 20_000;
const mostFrames = 12;
const mostCauses = 3;

/** The folder with this package's code. Its stack frames mean nothing to an author. */
const ownFolder = fileURLToPath(new URL("..", import.meta.url));

/** Describes an error. `where` names the author's tool, callback or other function. */
export function describeThrown(thrown: unknown, where: string): Thrown {
  const frames = framesIn(thrown);
  const first = frames.find(isAuthors);
  const place = first
    ? `${where} (${isInside(first.path) ? shortenPath(first.path) : basename(first.path)}:${first.line})`
    : where;
  const stack = stackText(thrown, frames);
  return { error: errorText(thrown), place, ...(stack !== undefined && { stack }) };
}

/** The author's function that fails with each of these codes. */
const functions: Partial<Record<ErrorCode, string>> = { seed_failed: "seed", verify_failed: "verify" };

/**
 * Describes the author's error that caused a HoldfastError; undefined if there is none. `tool` is the tool that failed.
 */
export function thrownIn(error: unknown, tool?: string): Thrown | undefined {
  if (!isHoldfastError(error) || error.cause === undefined) return undefined;
  if (isThrown(error.cause)) return error.cause;
  const { callback } = error.detail;
  const failed = error.code === "tool_failed" ? tool : undefined;
  const where = functions[error.code] ?? (typeof callback === "string" ? callback : failed);
  // Holdfast's own functions may have wrapped the error several times.
  let cause: unknown = error.cause;
  while (isHoldfastError(cause) && cause.cause !== undefined) cause = cause.cause;
  if (where !== undefined) return describeThrown(cause, where);
  // Describes a model's error only if its stack trace has a line of the author's code. A connection error has none.
  return error.code === "model_failed" && framesIn(cause).some(isAuthors)
    ? describeThrown(cause, "the model")
    : undefined;
}

/**
 * Returns the errors to report for an event. An environment tool's error in an agent's event has no stack trace,
 * because the episode's event has already reported it.
 */
export function thrownInEvent(event: Event): Thrown[] {
  if (event.type === "tools.answered") return (event.thrown ?? []).filter(({ stack }) => stack !== undefined);
  return "thrown" in event && event.thrown ? [event.thrown] : [];
}

function isThrown(value: unknown): value is Thrown {
  const { error, place } = Object(value) as Partial<Thrown>;
  return typeof error === "string" && typeof place === "string";
}

interface Frame {
  /** The function's name, if it has one. */
  name: string | undefined;
  path: string;
  line: string;
  column: string;
}

const frameLine =
  /^\s*at (?:(?:async )?([^(]+) \()?(?:async )?((?:file:\/\/|\/|[A-Za-z]:[\\/]|node:).+):(\d+):(\d+)\)?$/;

function framesIn(thrown: unknown): Frame[] {
  const stack = thrown instanceof Error ? readStack(thrown) : "";
  return stack.split("\n").flatMap((text) => {
    const [, name, file = "", line = "", column = ""] = frameLine.exec(text) ?? [];
    return file === "" ? [] : [{ name, path: file.startsWith("file://") ? toPath(file) : file, line, column }];
  });
}

/** Returns the stack trace without the message. An author's error may have a getter that throws. */
function readStack(error: Error): string {
  try {
    const stack = String(error.stack ?? "");
    // Skips the message, which may be long and may itself look like a stack trace.
    const start = stack.indexOf(error.message);
    return (start < 0 ? stack : stack.slice(start + error.message.length)).slice(0, longestRead);
  } catch {
    return "";
  }
}

function toPath(url: string): string {
  try {
    return fileURLToPath(url);
  } catch {
    return url;
  }
}

const isOwn = ({ path }: Frame): boolean => path.startsWith(ownFolder);

const isAuthors = (frame: Frame): boolean =>
  !isOwn(frame) && !frame.path.startsWith("node:") && !frame.path.includes("node_modules");

/** Returns whether a bug in Holdfast's own code is the cause, as far as the stack trace shows. */
export function isOwnFault(thrown: unknown): boolean {
  const frames = framesIn(thrown);
  // An author's package may be in node_modules too.
  const first = frames.find(({ path }) => !path.startsWith("node:"));
  return !isHoldfastError(thrown) && first !== undefined && isOwn(first) && !frames.some(isAuthors);
}

/** Returns whether Node called the author's code, as in a timer. Then the error interrupted no code of Holdfast. */
export function isAuthorsCallback(thrown: unknown): boolean {
  const outermost = framesIn(thrown).findLast(({ path }) => !path.startsWith("node:"));
  return outermost !== undefined && isAuthors(outermost);
}

const isInside = (path: string): boolean => {
  const inside = relative(process.cwd(), path);
  return !inside.startsWith("..") && !isAbsolute(inside);
};

/** Returns a path inside the working directory as a relative path. Any other path is returned unchanged. */
export const shortenPath = (path: string): string => (isInside(path) ? relative(process.cwd(), path) : path);

/** Returns the first line of the author's code in an error's stack trace. */
export function authorsLine(thrown: unknown): { path: string; line: number } | undefined {
  const frame = framesIn(thrown).find(isAuthors);
  return frame && { path: frame.path, line: Number(frame.line) };
}

function errorText(thrown: unknown): string {
  const text = isHoldfastError(thrown)
    ? `${thrown.code}: ${thrown.message}`
    : thrown instanceof Error
      ? `${String(thrown.name)}: ${thrown.message}`
      : messageOf(thrown);
  // Cuts the text before the replacement, because a message may repeat malicious input of any length.
  return ellipsis(text.slice(0, 4 * longestError).replaceAll(/\s+/g, " "), longestError);
}

/** Returns the stack traces of an error and its causes, down to the frame where Holdfast called the author's code. */
function stackText(thrown: unknown, frames: Frame[]): string | undefined {
  if (frames.length === 0) return undefined;
  const lines: string[] = [];
  let cause = thrown;
  for (let depth = 0; depth < mostCauses && cause instanceof Error; depth++) {
    lines.push(depth === 0 ? errorText(cause) : `caused by ${errorText(cause)}`);
    for (const { name, path, line, column } of authorsPart(framesIn(cause))) {
      const at = `${path.startsWith("node:") ? path : shortenPath(path)}:${line}:${column}`;
      lines.push(name === undefined ? `    at ${at}` : `    at ${name} (${at})`);
    }
    cause = cause.cause;
  }
  return ellipsis(lines.join("\n"), longestStack);
}

function authorsPart(frames: Frame[]): Frame[] {
  const first = frames.findIndex(isAuthors);
  const end = frames.findIndex((frame, at) => at > first && isOwn(frame));
  return frames.slice(0, first < 0 || end < 0 ? mostFrames : Math.min(end, mostFrames));
}
