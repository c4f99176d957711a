// Creates the folder for a new environment or agent from the files in templates/: all of it, or nothing.
import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, rm, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { invalidOption } from "../../core/errors.ts";
import { ownSpec } from "./own-spec.ts";

/** The templates folder. The relative path is valid both from src and from dist. */
const shipped = fileURLToPath(new URL("../../../templates", import.meta.url));

/** Versions of the new package's dependencies. A test compares them with the versions in this repository. */
export const versions = {
  "@photostructure/sqlite": "^2.6.0",
  zod: "^4.6.7",
  typescript: "^6.0.3",
  "@types/node": "^20.19.43",
};

/** Writes the files of the project, and returns their names, sorted. */
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
    const files = await projectFiles(name, kind, { folder, templates });
    for (const [path, text] of files) await write(path, text);
    if (files.has("generate.ts")) await write("tasks.jsonl", await printed("generate.ts", folder));
  } catch (error) {
    // Removes only the files written above, because another process may be filling the same folder.
    for (const path of written) await rm(join(folder, path), { force: true });
    if (isNew) await rmdir(folder).catch(() => undefined);
    throw error;
  }
  return written.sort();
}

/** Returns the text of every file except tasks.jsonl, which generate.ts prints. */
export async function projectFiles(
  name: string,
  kind: string,
  { folder = name, templates = shipped } = {},
): Promise<Map<string, string>> {
  const read = async (...path: string[]): Promise<string> =>
    (await readFile(join(templates, ...path), "utf8")).replace(/^# NAME/, `# ${name}`).replace('"NAME"', `"${name}"`);
  const files = new Map([
    ["package.json", packageJson(name, kind, ownSpec(folder))],
    ["tsconfig.json", await read("tsconfig.json")],
    // npm leaves files called .gitignore out of packages.
    [".gitignore", await read("gitignore")],
  ]);
  if (kind === "agent") {
    for (const file of ["README.md", "agent.ts", "script.ts", "agent.test.ts"]) files.set(file, await read(kind, file));
    return files;
  }
  const parts = (await read(kind, "parts.md")).trimEnd();
  files.set("README.md", (await read("README.md")).replace("PARTS", parts));
  for (const file of ["environment.ts", "solution.ts", "generate.ts"]) files.set(file, await read(kind, file));
  return files.set("environment.test.ts", await read("environment.test.ts"));
}

function packageJson(name: string, kind: string, holdfast: string): string {
  const { "@photostructure/sqlite": sqlite, zod, ...dev } = versions;
  const hasSqlite = process.getBuiltinModule?.("node:sqlite") !== undefined;
  const main = kind === "agent" ? "agent" : "environment";
  const store = "--store sqlite:sessions.db";
  const made = {
    name,
    version: "0.1.0",
    private: true,
    type: "module",
    engines: { node: ">=20.19" },
    scripts: {
      test: `tsc && node --test dist/${main}.test.js`,
      ...(kind === "agent"
        ? { start: `holdfast run . ${store}` }
        : {
            check: "holdfast check .",
            tasks: "tsc && node dist/generate.js > tasks.jsonl",
            collect: "holdfast collect . --model scripted --out runs/solution.jsonl --resume",
          }),
      serve: `holdfast serve . --port 8080 ${store}`,
    },
    // Node has SQLite since 22.13. Before that, this package is used.
    dependencies: { ...(!hasSqlite && { "@photostructure/sqlite": sqlite }), holdfast, zod },
    devDependencies: dev,
  };
  return `${JSON.stringify(made, null, 2)}\n`;
}

/** Refuses a name that is invalid for a folder, a package or an environment, and a name that a dependency has. */
export function refuseName(name: string): void {
  if (!/^[a-z][a-z0-9]*([-_][a-z0-9]+)*$/.test(name) || name.length > 64) {
    throw invalidOption(
      `"${name}" is not a valid name: use lower-case letters and digits, with - between words, as in price-list`,
    );
  }
  if (Object.hasOwn(versions, name) || name === "holdfast" || name === "node_modules") {
    throw invalidOption(`"${name}" is the name of a package that the project needs; choose another name`);
  }
}

/** Returns whether the folder is missing. A folder with files is refused. */
async function refuseFull(folder: string, name: string): Promise<boolean> {
  try {
    const [first] = await readdir(folder);
    if (first !== undefined)
      throw invalidOption(
        `the folder ${name} already exists and contains ${first}; choose another name, or empty the folder`,
      );
    return false;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return true;
    if (code === "ENOTDIR") throw invalidOption(`${name} already exists and is not a folder; choose another name`);
    throw error;
  }
}

/** Runs a TypeScript file, even on a Node version that does not support it, and returns its output. */
async function printed(file: string, cwd: string): Promise<string> {
  const args = ["--import", import.meta.resolve("jiti/register"), file];
  const env = { ...process.env, JITI_FS_CACHE: "false" };
  return (await promisify(execFile)(process.execPath, args, { cwd, env })).stdout;
}
