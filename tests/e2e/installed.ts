// The package as users get it: packed once per test run, and unpacked for a test as if npm had installed it.
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";
import { root } from "../files.ts";
import { shared } from "../shared.ts";

const run = promisify(execFile);

/**
 * A new folder whose node_modules has the packed package, its dependencies and the named packages. Removed after the
 * test.
 */
export async function folderWithPackage(...packages: string[]): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-package-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const modules = join(folder, "node_modules");
  const installed = join(modules, "holdfast");
  await mkdir(join(modules, ".bin"), { recursive: true });
  await mkdir(installed);
  await run("tar", ["-xzf", await shared("package"), "-C", installed, "--strip-components=1"]);
  const { bin, dependencies = {} } = await manifestAt(installed);
  for (const name of await closure([...Object.keys(dependencies), ...packages])) {
    await mkdir(dirname(join(modules, name)), { recursive: true });
    await symlink(join(root, "node_modules", name), join(modules, name));
  }
  const command = join(installed, bin?.["holdfast"] ?? "");
  // As npm does when it installs.
  await chmod(command, 0o755);
  await symlink(command, join(modules, ".bin/holdfast"));
  if (packages.includes("typescript")) await symlink("../typescript/bin/tsc", join(modules, ".bin/tsc"));
  return folder;
}

interface Manifest {
  bin?: { [name: string]: string };
  dependencies?: { [name: string]: string };
}

async function manifestAt(folder: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as Manifest;
}

/** The packages and their dependencies, as npm lays them out in this repository. */
async function closure(names: string[]): Promise<Set<string>> {
  const found = new Set<string>();
  const open = [...names];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    // A nested package comes with its parent.
    if (found.has(name) || !existsSync(join(root, "node_modules", name))) continue;
    found.add(name);
    open.push(...Object.keys((await manifestAt(join(root, "node_modules", name))).dependencies ?? {}));
  }
  return found;
}

export interface Printed {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs shell commands in a folder, with the commands of the nearest node_modules. */
export async function inShell(commands: string, cwd: string, ...before: string[]): Promise<Printed> {
  const folders = [...before, join(cwd, "node_modules/.bin"), join(dirname(cwd), "node_modules/.bin")];
  // The npm settings of the test process do not apply to the npm that a test starts.
  const inherited = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name));
  const env = { ...Object.fromEntries(inherited), PATH: [...folders, process.env["PATH"]].join(":") };
  return new Promise((resolve) => {
    execFile("sh", ["-c", commands], { cwd, env }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : typeof error.code === "number" ? error.code : 1, stdout, stderr });
    });
  });
}
