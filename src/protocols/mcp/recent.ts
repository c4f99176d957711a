// createRecent(): a set that remembers the newest values.
const most = 100_000;

export function createRecent() {
  const values = new Set<string>();
  return {
    has: (value: string): boolean => values.has(value),
    add(value: string): void {
      values.add(value);
      const [oldest] = values;
      if (values.size > most && oldest !== undefined) values.delete(oldest);
    },
  };
}
