// Runs the checks of the code: types, build and package beside lint, format and unused code. Prints the output of each.
import { spawn } from "node:child_process";

/** Returns whether a script of package.json succeeded. */
function succeeds(script) {
  return new Promise((resolve) => {
    // On Windows npm is a .cmd file, which only a shell can start.
    const child = spawn("npm", ["run", "--silent", script], { shell: process.platform === "win32" });
    const output = [];
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => output.push(chunk));
    child.on("error", (error) => output.push(Buffer.from(`${script}: ${error.message}\n`)));
    child.on("close", (code) => {
      process.stdout.write(Buffer.concat(output));
      if (code !== 0) console.error(`npm run ${script} failed`);
      resolve(code === 0);
    });
  });
}

const results = await Promise.all(["check:types", "check:style"].map(succeeds));
if (results.includes(false)) process.exitCode = 1;
