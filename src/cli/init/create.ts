// Makes the folder of a new environment: all of it, or nothing of it.
import { execFile } from "node:child_process";
import { mkdir, readdir, rm, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { HoldfastError } from "../../core/errors.ts";
import type { Kind } from "./kind.ts";
import { projectFiles, versions } from "./project.ts";

/** Gives the names of the files it made, in the order of the alphabet. */
export async function createProject(folder: string, name: string, kind: Kind): Promise<string[]> {
  refuseName(name);
  const isNew = await refuseFull(folder, name);
  const written: string[] = [];
  const write = async (path: string, text: string): Promise<void> => {
    await writeFile(join(folder, path), text, { flag: "wx" });
    written.push(path);
  };
  try {
    await mkdir(folder, { recursive: true });
    for (const [path, text] of projectFiles(name, kind)) await write(path, text);
    await write("tasks.jsonl", await printed("generate.ts", folder));
  } catch (error) {
    // Only what was written here: somebody else may be filling the same folder.
    for (const path of written) await rm(join(folder, path), { force: true });
    if (isNew) await rmdir(folder).catch(() => undefined);
    throw error;
  }
  return written.sort();
}

/** A name is that of a folder, a package and an environment, and none of the packages it needs. */
export function refuseName(name: string): void {
  if (!/^[a-z][a-z0-9]*([-_][a-z0-9]+)*$/.test(name) || name.length > 64) {
    throw wrong(`"${name}" is no name: small letters and digits, with - between words, as in price-list`);
  }
  if (Object.hasOwn(versions, name) || name === "node_modules") {
    throw wrong(`"${name}" is the name of something it needs itself; choose another`);
  }
}

/** Whether the folder is not there yet. One with something in it is refused. */
async function refuseFull(folder: string, name: string): Promise<boolean> {
  try {
    const [first] = await readdir(folder);
    if (first !== undefined) throw wrong(`the folder ${name} is there already, and has ${first} in it`);
    return false;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return true;
    if (code === "ENOTDIR") throw wrong(`${name} is there already, and is no folder`);
    throw error;
  }
}

/** What a file prints. It is TypeScript, which not every Node runs by itself. */
async function printed(file: string, cwd: string): Promise<string> {
  const args = ["--import", import.meta.resolve("jiti/register"), file];
  return (await promisify(execFile)(process.execPath, args, { cwd, env: { ...process.env, JITI_FS_CACHE: "false" } }))
    .stdout;
}

function wrong(message: string): HoldfastError {
  return new HoldfastError("invalid_option", message);
}
