// createCache(): keeps sessions in memory: all sessions in use, and the most recently used of the other sessions, up to
// limits.

/** The fields of an item that the cache uses. */
export interface Cached {
  readonly id: string;
  /** The number of current users. An item in use is not dropped, so that all users share it. */
  uses: number;
  /** The item's neighbours in the list of unused items, which is ordered by last use. */
  older: this | undefined;
  newer: this | undefined;
}

export interface CacheLimits {
  /** Maximum number of unused sessions. Default 10,000. */
  sessions?: number;
  /** Approximate maximum size of unused state, in bytes. Default 256 MB. */
  bytes?: number;
}

export interface Cache<Item extends Cached> {
  /** Returns the item, and starts a use of it. */
  take(id: string): Item | undefined;
  /** Adds a loaded item and starts a use of it. If the cache already has the id, returns the existing item. */
  put(item: Item): Item;
  /** Ends one use of an item. */
  release(item: Item): void;
  /** Removes an item from the cache. Its current users keep it. */
  drop(item: Item): void;
  used(): Iterable<Item>;
  /** Approximate bytes of the unused items. */
  readonly bytes: number;
}

/** The size of an unused item changes only through `shrink`, which drops parts that can be rebuilt. */
interface Sizing<Item> {
  sizeOf(item: Item): number;
  shrink(item: Item): void;
}

/**
 * Unused items form a linked list and are not moved between Maps. A Map with frequent additions and removals keeps
 * building new tables, and the dead tables keep their contents alive through many garbage collections.
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

  /**
   * Drops unused items, the oldest first. If there are too many bytes but not too many items, it first shrinks an item,
   * and drops it only if that freed nothing.
   */
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
