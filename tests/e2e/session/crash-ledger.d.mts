// The types of crash-ledger.mjs.
import type { Environment } from "holdfast";

export function ledger(built: string, effect: (call: string) => void): Promise<Environment>;
