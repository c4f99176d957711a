// Makes the folder of a new environment from the files in templates/: all of it, or nothing.
import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, rm, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { invalidOption } from "../../core/errors.ts";

/** The same folder from src and from dist. */
const shipped = fileURLToPath(new URL("../../../templates", import.meta.url));

/** Versions that the new package asks for. A test compares them with the tested ones. */
export const versions = {
  holdfast: "^0.1.0",
  zod: "^4.6.7",
  typescript: "^6.0.3",
  "@types/node": "^20.19.43",
};

/** Returns the names of the files, sorted. */
export async function createProject(
  folder: string,
  name: string,
  kind: string,
  templates = shipped,
): Promise<string[]> {
  refuseName(name);
  const isNew = await refuseFull(folder, name);
  const written: string[] = [];
  const write = async (path: string, text: string): Promise<void> => {
    await writeFile(join(folder, path), text, { flag: "wx" });
    written.push(path);
  };
  try {
    await mkdir(folder, { recursive: true });
    for (const [path, text] of await projectFiles(name, kind, templates)) await write(path, text);
    await write("tasks.jsonl", await printed("generate.ts", folder));
  } catch (error) {
    // Only its own files: another process may be filling the same folder.
    for (const path of written) await rm(join(folder, path), { force: true });
    if (isNew) await rmdir(folder).catch(() => undefined);
    throw error;
  }
  return written.sort();
}

/** The text of every file but tasks.jsonl, which generate.ts prints. */
export async function projectFiles(name: string, kind: string, templates = shipped): Promise<Map<string, string>> {
  const read = (...path: string[]): Promise<string> => readFile(join(templates, ...path), "utf8");
  const parts = (await read(kind, "parts.md")).trimEnd();
  return new Map([
    ["package.json", packageJson(name)],
    ["tsconfig.json", await read("tsconfig.json")],
    // npm leaves files called .gitignore out of packages.
    [".gitignore", await read("gitignore")],
    ["README.md", (await read("README.md")).replace("NAME", name).replace("PARTS", parts)],
    ["environment.ts", (await read(kind, "environment.ts")).replace('"NAME"', JSON.stringify(name))],
    ["solution.ts", await read(kind, "solution.ts")],
    ["generate.ts", await read(kind, "generate.ts")],
    ["environment.test.ts", await read("environment.test.ts")],
  ]);
}

function packageJson(name: string): string {
  const { holdfast, zod, ...dev } = versions;
  const made = {
    name,
    version: "0.1.0",
    private: true,
    type: "module",
    engines: { node: ">=20.19" },
    scripts: {
      test: "tsc && node --test dist/environment.test.js",
      check: "holdfast check .",
      tasks: "tsc && node dist/generate.js > tasks.jsonl",
      collect: "holdfast collect . --model scripted --out runs/scripted.jsonl --resume",
      serve: "holdfast serve . --port 8080 --store sqlite:sessions.db",
    },
    dependencies: { holdfast, zod },
    devDependencies: dev,
  };
  return `${JSON.stringify(made, null, 2)}\n`;
}

/** Refuses an invalid name of a folder, a package or an environment, and the name of a dependency. */
export function refuseName(name: string): void {
  if (!/^[a-z][a-z0-9]*([-_][a-z0-9]+)*$/.test(name) || name.length > 64) {
    throw invalidOption(
      `"${name}" is not a valid name: use small letters and digits, with - between words, as in price-list`,
    );
  }
  if (Object.hasOwn(versions, name) || name === "node_modules") {
    throw invalidOption(`"${name}" is the name of a package that it needs; choose another`);
  }
}

/** Tells whether the folder is missing. A folder with files is refused. */
async function refuseFull(folder: string, name: string): Promise<boolean> {
  try {
    const [first] = await readdir(folder);
    if (first !== undefined) throw invalidOption(`the folder ${name} exists and contains ${first}`);
    return false;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return true;
    if (code === "ENOTDIR") throw invalidOption(`${name} exists and is not a folder`);
    throw error;
  }
}

/** Runs a TypeScript file, which not every Node can by itself, and returns its output. */
async function printed(file: string, cwd: string): Promise<string> {
  const args = ["--import", import.meta.resolve("jiti/register"), file];
  const env = { ...process.env, JITI_FS_CACHE: "false" };
  return (await promisify(execFile)(process.execPath, args, { cwd, env })).stdout;
}
