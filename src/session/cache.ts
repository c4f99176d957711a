// Sessions kept in the process: those in use, and of the others the most recently used, bounded by count and bytes.

/** What the cache has to know of an item. */
interface Cached {
  readonly id: string;
  /** How many are using it now. While anyone does it stays, so that all of them meet in one place. */
  uses: number;
}

export interface CacheLimits {
  /** Sessions kept while nobody uses them. Default 10,000. */
  sessions?: number;
  /** Bytes of state kept while nobody uses it, roughly. Default 256 MB. */
  bytes?: number;
}

/** `sizeOf` is about how much memory an item holds; it does not change while nobody uses it. */
export function createCache<Item extends Cached>(limits: CacheLimits = {}, sizeOf: (item: Item) => number) {
  const { sessions = 10_000, bytes = 256 * 1024 * 1024 } = limits;
  const used = new Map<string, Item>();
  // In the order of last use: a Map iterates in the order of insertion.
  const unused = new Map<string, Item>();
  let held = 0;

  function forget(item: Item): void {
    if (unused.delete(item.id)) held -= sizeOf(item);
  }

  return {
    /** The item, in use from now on. */
    take(id: string): Item | undefined {
      let item = used.get(id);
      if (!item) {
        item = unused.get(id);
        if (!item) return undefined;
        forget(item);
        used.set(id, item);
      }
      item.uses++;
      return item;
    },
    /** A loaded item, in use from now on; the one that is there already, if there is one. */
    put(item: Item): Item {
      const present = this.take(item.id);
      if (present) return present;
      item.uses++;
      used.set(item.id, item);
      return item;
    },
    /** Ends one use of an item. */
    release(item: Item): void {
      if (--item.uses > 0 || used.get(item.id) !== item) return;
      used.delete(item.id);
      unused.set(item.id, item);
      held += sizeOf(item);
      while (unused.size > 0 && (unused.size > sessions || held > bytes)) forget(unused.values().next().value as Item);
    },
    /** Forgets an item; who uses it still keeps it. */
    drop(item: Item): void {
      if (used.get(item.id) === item) used.delete(item.id);
      else if (unused.get(item.id) === item) forget(item);
    },
  };
}
