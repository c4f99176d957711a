// The S3 server of the tests as a separate process, so that its cost is not counted for the store.
import { createServer } from "node:http";
import { startS3 } from "../tools/servers/s3.mjs";

const server = await startS3();
// It records all requests, for tests.
setInterval(() => (server.requests.length = 0), 1000);

/** Reports the stored bytes, on a second port. */
const sizes = createServer((_, response) => {
  const objects = [...server.objects];
  const bytes = objects.reduce((sum, [key, { body }]) => sum + key.length + body.length, 0);
  response.end(JSON.stringify({ bytes, count: objects.length }));
});
sizes.listen(0, "127.0.0.1", () => {
  const { port } = /** @type {import("node:net").AddressInfo} */ (sizes.address());
  console.log(`${server.endpoint} sizes http://127.0.0.1:${port}`);
});
// Ends with its parent process.
process.stdin.resume().on("end", () => process.exit());
