// Preloaded into a process: its wall clock is off by as many milliseconds as the file CLOCK_FILE says, read ten times a second.
import { readFileSync } from "node:fs";

const file = process.env["CLOCK_FILE"] ?? "";
const RealDate = Date;
let offset = 0;

function look() {
  try {
    offset = Number(readFileSync(file, "utf8")) || 0;
  } catch {
    offset = 0;
  }
}

look();
setInterval(look, 100).unref();

const now = () => RealDate.now() + offset;
globalThis.Date = new Proxy(RealDate, {
  construct: (target, args, newTarget) => Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget),
  apply: () => new RealDate(now()).toString(),
  get: (target, name) => (name === "now" ? now : Reflect.get(target, name)),
});
