// A random number within the bounds of a JSON Schema.
import { numberOf, type JsonSchema } from "../../core/json-schema.ts";
import { between, chance, type Random } from "./draw.ts";

/** Near 0 as a rule, as far as the bounds let it; now and then anywhere between them, or on one. */
export function randomNumber(schema: JsonSchema, isWhole: boolean, random: Random): number {
  const step = stepOf(schema, isWhole);
  const bounds = boundsOf(schema);
  const { least, most } = chance(random, 0.1) ? clamp(bounds, Number.MAX_SAFE_INTEGER) : near(bounds);
  if (step === undefined) return inDecimals(least, most, bounds, random);
  // Counted in steps, which the first and the last must not leave.
  const first = bounds.above === undefined ? Math.ceil(least / step) : Math.floor(least / step) + 1;
  const last = bounds.below === undefined ? Math.floor(most / step) : Math.ceil(most / step) - 1;
  if (last < first) return tidy(first * step);
  const edge = random();
  return tidy((edge < 0.05 ? first : edge < 0.1 ? last : between(random, first, last)) * step);
}

interface Bounds {
  least: number | undefined;
  most: number | undefined;
  /** Set if the bound itself is out of it. */
  above: number | undefined;
  below: number | undefined;
}

function boundsOf(schema: JsonSchema): Bounds {
  const [minimum, maximum] = [numberOf(schema["minimum"]), numberOf(schema["maximum"])];
  const [above, below] = [numberOf(schema["exclusiveMinimum"]), numberOf(schema["exclusiveMaximum"])];
  const excludesLeast = above !== undefined && above >= (minimum ?? -Infinity);
  const excludesMost = below !== undefined && below <= (maximum ?? Infinity);
  return {
    least: excludesLeast ? above : minimum,
    most: excludesMost ? below : maximum,
    above: excludesLeast ? above : undefined,
    below: excludesMost ? below : undefined,
  };
}

/** The part of the range that is between -100 and 100, or the 100 that are nearest to it. */
function near({ least = -Infinity, most = Infinity }: Bounds): { least: number; most: number } {
  if (least > 100) return { least, most: Math.min(most, least + 100) };
  if (most < -100) return { least: Math.max(least, most - 100), most };
  const start = Math.max(least, -100);
  const end = Math.min(most, 100);
  // A narrow piece at the edge, such as the numbers above 99.9, may hold no step: take more of the range.
  return {
    least: start - least > 0 && end - start < 100 ? Math.max(least, end - 100) : start,
    most: Math.min(most, Math.max(end, start + 100)),
  };
}

function clamp({ least = -Infinity, most = Infinity }: Bounds, limit: number): { least: number; most: number } {
  // With a bound beyond the limit, the limit moves: what is between the bounds counts.
  const start = Math.max(least, Math.min(-limit, most));
  return { least: start, most: Math.min(most, Math.max(limit, start)) };
}

/** The numbers there are: multiples of this. A whole number that is also a multiple of 0.3 is one of 3. */
function stepOf(schema: JsonSchema, isWhole: boolean): number | undefined {
  const multiple = numberOf(schema["multipleOf"]);
  if (multiple === undefined || multiple <= 0) return isWhole ? 1 : undefined;
  if (!isWhole) return multiple;
  for (let times = 1; times <= 1000; times++)
    if (Number.isInteger(tidy(multiple * times))) return tidy(multiple * times);
  return 1;
}

function inDecimals(least: number, most: number, { above, below }: Bounds, random: Random): number {
  const value = least + random() * (most - least);
  const isInside = (one: number): boolean => one >= least && one <= most && one !== above && one !== below;
  return [Math.round(value * 100) / 100, value, (least + most) / 2].find(isInside) ?? least;
}

/** 0.3 and not 0.30000000000000004, which is no multiple of 0.1 for those who divide. */
const tidy = (value: number): number => (Number.isInteger(value) ? value : Number(value.toPrecision(12)));
