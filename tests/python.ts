// The python3 of this machine, for tests of the Python package.
import { spawnSync } from "node:child_process";

/** Returns the command of a python3 of version 3.11 or newer; undefined if there is none. */
export function findPython(): string | undefined {
  // Debian's python3 may have torch where the first one of the PATH has not.
  return ["/usr/bin/python3", "python3"].find((name) => {
    const script = "import sys; sys.exit(sys.version_info < (3, 11))";
    return spawnSync(name, ["-c", script]).status === 0;
  });
}
