// The memory store passes the shared cases.
import { memoryStore } from "../../src/stores/memory.ts";
import { runStoreCases } from "./run-cases.ts";

runStoreCases("memory", () => ({ open: memoryStore }), { persistent: false });
