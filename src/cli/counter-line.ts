// Shows a progress counter during long work if standard error is a terminal; otherwise prints nothing.

const every = 200;

export function createCounterLine(what: string) {
  const { stderr } = process;
  let [count, shown] = [0, performance.now()];
  return {
    add(): void {
      count++;
      if (!stderr.isTTY || performance.now() - shown < every) return;
      shown = performance.now();
      stderr.write(`\r\u001B[2K${count} ${what}`);
    },
    /** Clears the counter from the terminal. */
    end(): void {
      if (stderr.isTTY) stderr.write("\r\u001B[2K");
    },
  };
}
