// Checks which files and stores a job may make this worker open. Everyone with write access to the queue can write
// jobs, and the worker holds keys.
import { existsSync, realpathSync } from "node:fs";
import { basename, dirname, isAbsolute, join, relative, resolve } from "node:path";
import { invalidOption } from "../core/errors.ts";
import type { PlaySettings } from "./collector.ts";
import { locate } from "../rollout/load.ts";
import { isUrl } from "../rollout/collection-settings.ts";

/** Refuses code and recordings outside a folder. Packages are allowed, because they were installed on purpose. */
export async function assertFilesWithin(folder: string, { target, agent, model }: PlaySettings): Promise<void> {
  if (target !== undefined && !isPackage(target)) assertWithin(folder, await locate(target, "environment"));
  if (agent !== undefined && !isUrl(agent) && !isPackage(agent)) assertWithin(folder, await locate(agent, "agent"));
  const [, recording] = /^recorded:(.+)$/.exec(model) ?? [];
  if (recording !== undefined) assertWithin(folder, recording);
}

/** Refuses a job's store if it is a file outside the folder, or if it would receive one of this worker's keys. */
export function assertStore(folder: string, url: string, variables = process.env): void {
  const [, file] = /^sqlite:(.+)$/i.exec(url) ?? [];
  if (file !== undefined) return assertWithin(folder, file);
  const key = keysSentTo(url).find((name) => variables[name]);
  if (key === undefined) return;
  throw invalidOption(
    `the job's store URL has no credentials, so it would get this worker's ${key}; to allow that, start the worker with this --store`,
  );
}

/** Returns the environment variables that would be sent to a store because its URL does not contain a key. */
function keysSentTo(url: string): string[] {
  const { protocol, username, password, search } = URL.canParse(url) ? new URL(url) : new URL("none:");
  if (/^https?:$/.test(protocol)) return username === "" ? ["HOLDFAST_STORE_TOKEN"] : [];
  if (/^postgres(ql)?:$/.test(protocol)) return password === "" ? ["PGPASSWORD"] : [];
  // Without these parameters, the store is Amazon's, or the store that this worker's own variables name.
  const isElsewhere = protocol === "s3:" && /[?&](endpoint|region)=/.test(search);
  return isElsewhere ? ["AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID"] : [];
}

/** Returns whether a target is a package name. Such a name cannot point outside a package. */
const isPackage = (target: string): boolean =>
  /^@?[\w-][\w.-]*(\/[\w-][\w.-]*)*$/.test(target) && !existsSync(resolve(target));

function assertWithin(folder: string, file: string): void {
  const way = relative(realpathSync(folder), realPath(resolve(file)));
  if (way !== ".." && !/^\.\.[/\\]/.test(way) && !isAbsolute(way)) return;
  throw invalidOption(`${file} is outside the folder that this worker was started in`);
}

/** Resolves links in a path, even if the file does not exist yet. */
function realPath(file: string): string {
  if (existsSync(file) || dirname(file) === file) return realpathSync(file);
  return join(realPath(dirname(file)), basename(file));
}
