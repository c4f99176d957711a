// A list of numbers that grows and takes no more room than they need: a million rows have ten million of them.

export interface NumberList {
  push(value: number): void;
  /** A position past the end is the caller's mistake, and reads as 0 or as undefined. */
  at(position: number): number;
  length(): number;
}

/** `kind` says how many bytes a number takes, and what can be kept. */
export function numberList(
  kind: typeof Float64Array | typeof Uint32Array | typeof Uint16Array | typeof Uint8Array,
): NumberList {
  let items = new kind(16);
  let length = 0;
  return {
    push(value) {
      if (length === items.length) {
        const wider = new kind(length * 2);
        wider.set(items);
        items = wider;
      }
      items[length++] = value;
    },
    at: (position) => items[position] as number,
    length: () => length,
  };
}
