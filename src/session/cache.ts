// Sessions kept in the process: those in use, and of the others the most recently used, bounded by count and bytes.

/** What the cache has to know of an item. */
export interface Cached {
  readonly id: string;
  /** How many are using it now. While anyone does it stays, so that all of them meet in one place. */
  uses: number;
  /** Its neighbours among those that nobody uses, in the order of last use. */
  older: this | undefined;
  newer: this | undefined;
}

export interface CacheLimits {
  /** Sessions kept while nobody uses them. Default 10,000. */
  sessions?: number;
  /** Bytes of state kept while nobody uses it, roughly. Default 256 MB. */
  bytes?: number;
}

export interface Cache<Item extends Cached> {
  /** The item, in use from now on. */
  take(id: string): Item | undefined;
  /** A loaded item, in use from now on; the one that is there already, if there is one. */
  put(item: Item): Item;
  /** Ends one use of an item. */
  release(item: Item): void;
  /** Forgets an item; its users keep it. */
  drop(item: Item): void;
  /** The items in use. */
  used(): Iterable<Item>;
  /** Roughly the bytes of the items that nobody uses. */
  readonly bytes: number;
}

/** `sizeOf` an item does not change while nobody uses it, but by `shrink`, which drops what can be built again. */
interface Sizing<Item> {
  sizeOf(item: Item): number;
  shrink(item: Item): void;
}

/**
 * A list linked through the items, not Maps that they move between: whatever comes and goes in a Map makes it build
 * new tables, and the dead tables keep what was in them alive through many collections of garbage.
 */
export function createCache<Item extends Cached>(
  limits: CacheLimits = {},
  { sizeOf, shrink }: Sizing<Item>,
): Cache<Item> {
  const { sessions = 10_000, bytes = 256 * 1024 * 1024 } = limits;
  const items = new Map<string, Item>();
  let oldest: Item | undefined;
  let newest: Item | undefined;
  let unused = 0;
  let held = 0;

  const isFull = (): boolean => unused > sessions || held > bytes;

  function link(item: Item): void {
    item.older = newest;
    if (newest) newest.newer = item;
    else oldest = item;
    newest = item;
    unused++;
    held += sizeOf(item);
  }

  function unlink(item: Item): void {
    const { older, newer } = item;
    if (older) older.newer = newer;
    else oldest = newer;
    if (newer) newer.older = older;
    else newest = older;
    item.older = undefined;
    item.newer = undefined;
    unused--;
    held -= sizeOf(item);
  }

  function drop(item: Item): void {
    if (items.get(item.id) !== item) return;
    items.delete(item.id);
    if (item.uses === 0) unlink(item);
  }

  /** Drops items that nobody uses, the oldest first; of each first what can be built again. */
  function evict(): void {
    for (let item = oldest; item && isFull(); item = oldest) {
      const size = sizeOf(item);
      if (unused <= sessions) shrink(item);
      const freed = size - sizeOf(item);
      held -= freed;
      if (freed === 0) drop(item);
    }
  }

  return {
    take(id: string): Item | undefined {
      const item = items.get(id);
      if (item && ++item.uses === 1) unlink(item);
      return item;
    },
    put(item: Item): Item {
      const present = this.take(item.id);
      if (present) return present;
      item.uses++;
      items.set(item.id, item);
      return item;
    },
    release(item: Item): void {
      if (--item.uses > 0 || items.get(item.id) !== item) return;
      link(item);
      if (isFull()) evict();
    },
    drop,
    *used() {
      for (const item of items.values()) if (item.uses > 0) yield item;
    },
    get bytes() {
      return held;
    },
  };
}
