// Builds better-sqlite3 for the tests if Node has no SQLite (before 22.13).
// `npm ci` runs no install scripts here (.npmrc), so this is the only native build.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";

const require = createRequire(import.meta.url);

function loads() {
  try {
    const Database = require("better-sqlite3");
    new Database(":memory:").close();
    return true;
  } catch {
    return false;
  }
}

function run(command, args, cwd, quiet) {
  const { status } = spawnSync(command, args, { cwd, stdio: quiet ? "ignore" : "inherit" });
  return status === 0;
}

if (!process.getBuiltinModule?.("node:sqlite") && !loads()) {
  const folder = dirname(require.resolve("better-sqlite3/package.json"));
  // Uses the headers of this Node if present; otherwise node-gyp downloads them.
  const prefix = resolve(process.execPath, "../..");
  const headers = existsSync(join(prefix, "include/node/node.h")) ? [`--nodedir=${prefix}`] : [];
  const npmFolder = dirname(dirname(process.env.npm_execpath ?? ""));
  const gyp = join(npmFolder, "node_modules/node-gyp/bin/node-gyp.js");
  const command = existsSync(gyp) ? [process.execPath, gyp] : ["npx", "--yes", "node-gyp"];
  console.log("better-sqlite3: no binary for this Node yet; getting or building one (about 2 minutes, once)");
  const prebuilt = join(dirname(folder), ".bin/prebuild-install");
  const done =
    (existsSync(prebuilt) && run(prebuilt, [], folder, true) && loads()) ||
    (run(command[0], [...command.slice(1), "rebuild", "--release", ...headers], folder, true) && loads());
  if (!done) {
    console.error(
      "better-sqlite3 could not be built. It needs python3, make and a C++ compiler\n" +
        "(Debian: apt-get install python3 make g++), or use Node 22.13 or newer, which needs no build.",
    );
    process.exit(1);
  }
}
