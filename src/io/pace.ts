// Long work in pieces: other requests of the process get their turn in between.

/** Milliseconds of work in one piece. */
const longest = 5;

const waiting: (() => void)[] = [];

/** Resolves in a turn of the event loop in which no other long work has a piece. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(release);
  });
}

function release(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(release);
}

/** Gives a function to call between two steps of long work. It lets the event loop run if the work has taken 5 ms. */
export function createPace(): () => Promise<void> | undefined {
  let since = performance.now();
  return () => {
    if (performance.now() - since < longest) return undefined;
    return nextTurn().then(() => void (since = performance.now()));
  };
}

/** As `JSON.stringify`, for an object whose lists are long, item by item. */
export async function stringifyInPieces(value: object): Promise<string> {
  const pace = createPace();
  const members: string[] = [];
  for (const [key, member] of Object.entries(value) as [string, unknown][]) {
    if (!Array.isArray(member)) {
      if (member !== undefined) members.push(`${JSON.stringify(key)}:${JSON.stringify(member)}`);
      continue;
    }
    const items: string[] = [];
    for (const item of member) {
      items.push(JSON.stringify(item) ?? "null");
      await pace();
    }
    members.push(`${JSON.stringify(key)}:[${items.join()}]`);
  }
  return `{${members.join()}}`;
}
