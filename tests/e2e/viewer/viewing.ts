// Starts `holdfast view` for the tests of the viewer.
import { basename, dirname } from "node:path";
import { start, type Running } from "../serve-process.ts";
import { tally } from "./collected.ts";

/** Starts `holdfast view FILE…` in the folder of the files, and waits until its page can be opened. */
export async function startViewing(files: string[], ...args: string[]): Promise<Running & { url: string }> {
  const names = files.map((file) => basename(file));
  const command = ["view", ...names, "--environment", tally, "--no-open", ...args];
  const running = await start(command, { cwd: dirname(files[0] ?? "") });
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
