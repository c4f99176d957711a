// Shows a counting line on a terminal during long work; prints nothing elsewhere.

export interface CounterLine {
  add(): void;
  /** Removes the line. */
  end(): void;
}

const every = 200;

export function createCounterLine(what: string): CounterLine {
  const { stderr } = process;
  let [count, shown] = [0, performance.now()];
  return {
    add() {
      count++;
      if (!stderr.isTTY || performance.now() - shown < every) return;
      shown = performance.now();
      stderr.write(`\r\u001B[2K${count} ${what}`);
    },
    end() {
      if (stderr.isTTY) stderr.write("\r\u001B[2K");
    },
  };
}
