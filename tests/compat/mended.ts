// Where this version answers otherwise than version 0.1, on purpose: by file of expected/, name, and place in the list.

export const mended: Record<string, Record<string, Record<number, unknown>>> = {
  repeated: {
    // A rewind undid call a-8. Version 0.1 forgot that with the next seed, and answered the call from its record.
    "ledger-whole": { 13: { refused: "call_undone" } },
  },
};

/**
 * Where a turn of version 0.1 continues with other words, in expected/cuts.json. After a transfer, the scripted models of
 * that turn repeat the last message: it was a note about the transfer, and is the user's message now.
 */
const continued: { was: string; now: string; state?: string }[] = [
  {
    was: 'The specialist: [clerk] was given by transfer_to_agent: {"transferred":"specialist"}.',
    now: "The specialist: specialist.",
  },
  {
    was: 'Done: [specialist] was given by transfer_to_agent: {"transferred":"clerk"}.',
    now: "Done: clerk.",
    // Its output key has the words.
    state: "027bb1acdf2b",
  },
];

/** Returns a resumed turn of version 0.1 as this version continues it. */
export function asContinued<Cut extends object>(cut: Cut): Cut {
  const { resumed } = cut as { resumed?: { said?: string[]; state?: string } };
  const found = continued.find(({ was }) => resumed?.said?.includes(was));
  if (!resumed?.said || !found) return cut;
  const said = resumed.said.map((text) => (text === found.was ? found.now : text));
  return { ...cut, resumed: { ...resumed, said, state: found.state ?? resumed.state } };
}

/**
 * What version 0.1 answered in a session that was continued, as this version answers it. A restored copy plays a fork of
 * its parent's episode: `killed-desk` had undone a turn of 1, which its copy does not see any more.
 */
export function continuedIn(session: string, before: unknown): unknown {
  if (session !== "killed-desk") return before;
  return JSON.parse(JSON.stringify(before).replace(String.raw`{\"total\":9}`, String.raw`{\"total\":8}`));
}
