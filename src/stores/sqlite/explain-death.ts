// explainDeath(): starts a small process. It reports if the system kills this process because a file was truncated.
import { spawn } from "node:child_process";
import type { Socket } from "node:net";

/**
 * SQLite maps this many bytes of the -shm file. Reading them in a shorter file kills the process (SIGBUS), and the
 * process cannot catch that.
 */
const mappedBytes = 32_768;

// Waits until this process ends, which closes the pipe. A store that was closed has no -shm file.
const script = `read -r _; [ -f "$1" ] && [ "$(wc -c < "$1")" -lt ${mappedBytes} ] && printf '%s\\n' "$2" >&2`;

/** Watches a server's store until the process ends. The shell uses about 1 MB of memory. */
export function explainDeath(store: string): void {
  const [, file] = /^sqlite:(.+)$/i.exec(store) ?? [];
  if (file === undefined || process.platform === "win32") return;
  const shared = `${file}-shm`;
  const text =
    `the operating system ended holdfast serve (SIGBUS): ${shared} was truncated while in use. ` +
    "No answered call is lost. Restart the server.";
  const shell = spawn("sh", ["-c", script, "sh", shared, text], {
    stdio: ["pipe", "ignore", "inherit"],
    // Runs in its own process group, because Ctrl-C ends all processes of a group.
    detached: true,
  });
  // Without a shell, there is no explanation.
  shell.on("error", () => undefined);
  shell.stdin.on("error", () => undefined);
  (shell.stdin as Socket).unref();
  shell.unref();
}
