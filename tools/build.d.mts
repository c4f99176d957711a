// The types of build.mjs, for the tests.
export const root: string;
export function findOld(): string[];
export function build(names: string[]): Promise<{ failed: string[]; output: string }>;
