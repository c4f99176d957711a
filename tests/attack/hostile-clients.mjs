// A process with hostile clients. The test runs it with a low priority, so that it measures the server and not the machine.
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** @typedef {{ port: number, count: number, first: string, drip: string, reads: boolean, isRepeated: boolean }} Attack */

process.once("message", (message) => attack(/** @type {Attack} */ (message)));

/** @param {Attack} attack */
function attack({ port, count, first, drip, reads, isRepeated }) {
  const bytes = Buffer.from(first);
  /** @type {Set<import("node:net").Socket>} */
  const sockets = new Set();
  let made = 0;
  let replies = 0;

  /** Connects a client. One that is cut off comes again. */
  const begin = () => {
    made++;
    const socket = connect(port, "127.0.0.1");
    sockets.add(socket);
    socket.on("error", () => undefined);
    if (reads) {
      socket.on("data", () => {
        replies++;
        if (isRepeated && socket.writableLength === 0) socket.write(bytes);
      });
    }
    if (bytes.length > 0) socket.write(bytes);
    socket.on("close", async () => {
      sockets.delete(socket);
      await sleep(50);
      begin();
    });
  };

  for (let n = 0; n < count; n++) begin();
  if (drip !== "") {
    setInterval(() => {
      for (const socket of sockets) socket.write(drip);
    }, 100);
  }
  process.on("message", () => process.send?.({ made, replies }));
  process.on("disconnect", () => process.exit(0));
}
