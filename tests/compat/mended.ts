// Where this version answers otherwise than version 0.1, on purpose: by file of expected/, name, and place in the list.

export const mended: Record<string, Record<string, Record<number, unknown>>> = {
  repeated: {
    // A rewind undid call a-8. Version 0.1 forgot that with the next seed, and answered the call from its record.
    "ledger-whole": { 13: { refused: "call_undone" } },
  },
};

/**
 * Where a turn of version 0.1 continues with other answers, by text of expected/cuts.json. After a transfer, the scripted
 * models of that turn repeat the last message: now the user's, then a note about the transfer. `said` is in the state.
 */
const continued: [string, string][] = [
  [
    'The specialist: [clerk] was given by transfer_to_agent: {"transferred":"specialist"}.',
    "The specialist: specialist.",
  ],
  ['Done: [specialist] was given by transfer_to_agent: {"transferred":"clerk"}.', "Done: clerk."],
  ["41a273605541", "027bb1acdf2b"],
];

/** Returns what version 0.1 answered, as this version answers. */
export function asContinued<T>(expected: T): T {
  let text = JSON.stringify(expected);
  for (const [then, now] of continued) text = text.replaceAll(JSON.stringify(then), JSON.stringify(now));
  return JSON.parse(text) as T;
}
