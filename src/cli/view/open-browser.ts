// Opens an address in the user's browser.
import { spawn } from "node:child_process";

const commands: { [platform: string]: [string, ...string[]] } = {
  darwin: ["open"],
  win32: ["cmd", "/c", "start", '""'],
};

/** Ignores failures: the address is printed in any case. */
export function openBrowser(url: string): void {
  const [command, ...words] = commands[process.platform] ?? ["xdg-open"];
  const child = spawn(command, [...words, url], { stdio: "ignore", detached: true });
  child.on("error", () => undefined);
  child.unref();
}
