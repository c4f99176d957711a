// The types of ports.mjs.

export function freePort(beside?: number): Promise<number>;
