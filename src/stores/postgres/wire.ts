// Encodes arrays in Postgres's binary format.

/** The element types of arrays, by their Postgres OIDs. */
const types = { integer: 23, text: 25, double: 701 } as const;

/** Writes an array header. Bodies are full of quotes, and the binary format needs no quoting. */
function array(type: number, length: number, bytes: number): Buffer {
  const buffer = Buffer.allocUnsafe(length === 0 ? 12 : 20 + bytes);
  buffer.writeInt32BE(length === 0 ? 0 : 1, 0);
  buffer.writeInt32BE(1, 4);
  buffer.writeInt32BE(type, 8);
  if (length > 0) {
    buffer.writeInt32BE(length, 12);
    buffer.writeInt32BE(1, 16);
  }
  return buffer;
}

/** Encodes strings that `toText` has converted. */
export function textArray(values: (string | null)[]): Buffer {
  const sizes = values.map((value) => (value === null ? -1 : Buffer.byteLength(value)));
  const buffer = array(
    types.text,
    values.length,
    sizes.reduce((sum, size) => sum + 4 + Math.max(size, 0), 0),
  );
  let at = 20;
  for (const [index, value] of values.entries()) {
    at = buffer.writeInt32BE(sizes[index]!, at);
    if (value !== null) at += buffer.write(value, at);
  }
  return buffer;
}

export function integerArray(values: (number | null)[]): Buffer {
  const bytes = values.reduce<number>((sum, value) => sum + (value === null ? 4 : 8), 0);
  const buffer = array(types.integer, values.length, bytes);
  let at = 20;
  for (const value of values) {
    at = buffer.writeInt32BE(value === null ? -1 : 4, at);
    if (value !== null) at = buffer.writeInt32BE(toInteger(value), at);
  }
  return buffer;
}

export function doubleArray(values: number[]): Buffer {
  const buffer = array(types.double, values.length, values.length * 12);
  let at = 20;
  for (const value of values) {
    at = buffer.writeInt32BE(8, at);
    at = buffer.writeDoubleBE(value, at);
  }
  return buffer;
}

const largest = 2 ** 31 - 1;

/** Limits a version to Postgres's largest integer. No log is that long. */
export function toInteger(version: number): number {
  return Math.min(version, largest);
}
