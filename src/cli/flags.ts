// Parses flag values: durations, numbers and JSON. A refusal shows a valid value.
import { InvalidArgumentError } from "commander";
import { messageOf } from "../core/errors.ts";
import { isObject, type Json } from "../core/json.ts";

const units: { [unit: string]: number } = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Parses a duration such as 500ms, 30s, 10m, 1h, 7d; returns milliseconds. */
export function duration(text: string): number {
  const [, number, unit = ""] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text) ?? [];
  const milliseconds = Number(number) * (units[unit] ?? NaN);
  if (milliseconds >= 1) return Math.round(milliseconds);
  throw new InvalidArgumentError("Use a number and a unit, as in 500ms, 30s, 10m, 1h or 7d.");
}

/** Parses a finite number. `refusal` is the error message for any other value. */
export function finite(refusal: string): (text: string) => number {
  return (text) => {
    if (text.trim() !== "" && Number.isFinite(Number(text))) return Number(text);
    throw new InvalidArgumentError(refusal);
  };
}

/** Parses a number above 0. */
export function positive(text: string): number {
  const refusal = "Use a number above 0, as in 0.5.";
  const number = finite(refusal)(text);
  if (number > 0) return number;
  throw new InvalidArgumentError(refusal);
}

/** Parses a whole number from `least` to `most`. */
export function whole(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const number = Number(text);
    if (/^\d+$/.test(text) && number >= least && number <= most) return number;
    const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`;
    throw new InvalidArgumentError(`Use a whole number ${range}.`);
  };
}

/** Parses a JSON object. */
export function jsonObject(text: string): { [field: string]: Json } {
  const value = json(text);
  if (isObject(value)) return value as { [field: string]: Json };
  throw new InvalidArgumentError("Use a JSON object, as in '{\"seed\":1}'.");
}

export function json(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (cause) {
    throw new InvalidArgumentError(`The value is not JSON: ${messageOf(cause)}`);
  }
}
