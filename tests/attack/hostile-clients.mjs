// A worker with hostile clients, so that they do not slow the honest client of the test down.
import { connect } from "node:net";
import { workerData } from "node:worker_threads";

/** @type {{ port: number, count: number, first: string, drip: string, reads: boolean, isRepeated: boolean, made: Int32Array }} */
const { port, count, first, drip, reads, isRepeated, made } = workerData;
const bytes = Buffer.from(first);
/** @type {Set<import("node:net").Socket>} */
const sockets = new Set();

/** Connects a client. One that is cut off comes again. */
function begin() {
  Atomics.add(made, 0, 1);
  const socket = connect(port, "127.0.0.1");
  sockets.add(socket);
  socket.on("error", () => undefined);
  if (reads) socket.on("data", () => void (isRepeated && socket.write(bytes)));
  if (bytes.length > 0) socket.write(bytes);
  socket.on("close", () => {
    sockets.delete(socket);
    setTimeout(begin, 50);
  });
}

for (let n = 0; n < count; n++) begin();
if (drip !== "") {
  setInterval(() => {
    for (const socket of sockets) socket.write(drip);
  }, 100);
}
