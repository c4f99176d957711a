// The S3 server of the tests as a process of its own: what it costs is not to be taken for what the store costs.
import { createServer } from "node:http";
import { startS3 } from "../tools/servers/s3.mjs";

const server = await startS3();
// It remembers all requests, for tests.
setInterval(() => (server.requests.length = 0), 1000);

/** Says what is stored, on a port beside. */
const sizes = createServer((_, response) => {
  const objects = [...server.objects];
  const bytes = objects.reduce((sum, [key, { body }]) => sum + key.length + body.length, 0);
  response.end(JSON.stringify({ bytes, count: objects.length }));
});
sizes.listen(0, "127.0.0.1", () => {
  const { port } = /** @type {import("node:net").AddressInfo} */ (sizes.address());
  console.log(`${server.endpoint} sizes http://127.0.0.1:${port}`);
});
// Ends with whoever started it.
process.stdin.resume().on("end", () => process.exit());
