// The sources as JavaScript, for tests that start processes: Node 20 does not run TypeScript.
import { shared } from "./shared.ts";

/** The folder that stands for src: dist, rebuilt if it is older than its sources. */
export const built = (): Promise<string> => shared("dist");
