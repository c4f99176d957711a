// Starts the server. From the root: npx jiti examples/http-store/start.ts store.db 8090
import type { AddressInfo } from "node:net";
import { createStoreServer } from "./server.ts";

const [file = "store.db", port = "8090"] = process.argv.slice(2);
const server = createStoreServer({ file, token: process.env["HOLDFAST_STORE_TOKEN"] });
server.listen(Number(port), "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => server.close());
