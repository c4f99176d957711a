// Starts `holdfast view` and `holdfast serve` for the tests of the viewer.
import { start, type Running } from "../serve-process.ts";

/** Starts `holdfast view …` and waits until its page can be opened. */
export async function startViewing(...args: string[]): Promise<Running & { url: string }> {
  const running = await start(["view", ...args, "--no-open"]);
  const ended = running.ended.then(({ code, stderr }) => {
    throw new Error(`it ended with ${code}: ${stderr}`);
  });
  ended.catch(() => undefined);
  for (;;) {
    const [, url] = /viewer at (http:\/\/[^/]+)/.exec(running.printed()) ?? [];
    if (url !== undefined) return { ...running, url };
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 20))]);
  }
}
