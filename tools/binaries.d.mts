// The types of binaries.mjs, for the tests.
export function ensureBinaries(): void;
export function findBinary(name: string): string | undefined;
