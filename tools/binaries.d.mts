// The types of binaries.mjs, for the tests.
export function ensureBinaries(options?: { browser?: boolean }): void;
export function findBinary(name: string): string | undefined;
