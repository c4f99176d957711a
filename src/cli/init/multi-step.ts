// The multi-step kind: tools that need each other's results, on a state with some structure.
import type { Kind } from "./kind.ts";

const environment = `// An environment in several steps: a mail room. Tools need each other's results: a name gives a person's id, the id
// gives parcels, and a parcel can be handed out.
import { defineEnvironment, tool } from "holdfast";
import { z } from "zod";

// Ids say nothing about the person, so that they can only be had by searching.
const people = new Map([
  ["p-71", "Ada Quill"],
  ["p-18", "Ines Marlow"],
  ["p-45", "Mira Holt"],
  ["p-93", "Owen Vance"],
]);

const parcel = z.object({ person_id: z.string(), shelf: z.string(), handed_out: z.boolean().default(false) });

export default defineEnvironment({
  name: "NAME",
  description: "A mail room that hands out parcels.",
  // What an episode keeps from call to call. The default is what a session has that was never seeded.
  state: z.object({ parcels: z.record(z.string(), parcel).default({}) }),
  // One row of tasks.jsonl. The prompt and all else that is in a row is for the agent, and is left out here.
  task: z.object({
    person: z.string(),
    parcels: z.array(z.object({ parcel_id: z.string(), person_id: z.string(), shelf: z.string() })).min(1),
  }),
  seed: ({ task }) => ({
    parcels: Object.fromEntries(
      task.parcels.map(({ parcel_id, ...parcel }) => [parcel_id, { ...parcel, handed_out: false }]),
    ),
  }),
  tools: {
    find_person: tool({
      description: "Find people by a part of their name. Gives their ids.",
      input: z.object({ name: z.string().min(1) }),
      run: (_, { name }) => {
        const found = [...people].filter(([, full]) => full.toLowerCase().includes(name.toLowerCase()));
        return { people: found.map(([person_id, full]) => ({ person_id, name: full })) };
      },
    }),
    list_parcels: tool({
      description: "The parcels that wait for a person.",
      input: z.object({ person_id: z.string() }),
      run: ({ state }, { person_id }) => {
        // The model reads this message, so it says what would be right.
        if (!people.has(person_id)) throw new Error(\`there is no person "\${person_id}"; find_person gives the ids\`);
        const waiting = Object.entries(state.parcels).filter(([, of]) => of.person_id === person_id && !of.handed_out);
        return { parcels: waiting.map(([parcel_id, { shelf }]) => ({ parcel_id, shelf })) };
      },
    }),
    hand_out: tool({
      description: "Hand out a parcel. It cannot be taken back.",
      input: z.object({ parcel_id: z.string() }),
      // \`state\` is a draft: assign to it. What is returned is what the model reads.
      run: ({ state }, { parcel_id }) => {
        const parcel = Object.hasOwn(state.parcels, parcel_id) ? state.parcels[parcel_id] : undefined;
        if (!parcel) throw new Error(\`there is no parcel "\${parcel_id}"; list_parcels gives the ids\`);
        if (parcel.handed_out) throw new Error(\`\${parcel_id} was handed out before\`);
        parcel.handed_out = true;
        return { parcel_id, handed_out: true };
      },
    }),
  },
  // Cannot write. 1 if all parcels of the person were handed out, and no other. Besides it, numbers for the metrics.
  verify: ({ state, task }) => {
    const parcels = Object.values(state.parcels);
    const isTheirs = ({ person_id }: { person_id: string }) => people.get(person_id) === task.person;
    const right = parcels.filter((parcel) => isTheirs(parcel) && parcel.handed_out).length;
    const wrong = parcels.filter((parcel) => !isTheirs(parcel) && parcel.handed_out).length;
    return { reward: Number(right === parcels.filter(isTheirs).length && wrong === 0), right, wrong };
  },
});
`;

const solution = `// The calls that win an episode. Each turn needs the results of the turn before; the calls of a list are made at once.
interface Found {
  people: { person_id: string; name: string }[];
}

interface Waiting {
  parcels: { parcel_id: string }[];
}

export default function* solution({ person }: { person: string }) {
  const [{ people }] = (yield [{ tool: "find_person", input: { name: person } }]) as [Found];
  const person_id = people.find(({ name }) => name === person)?.person_id ?? "";
  const [{ parcels }] = (yield [{ tool: "list_parcels", input: { person_id } }]) as [Waiting];
  yield parcels.map(({ parcel_id }) => ({ tool: "hand_out", input: { parcel_id } }));
  return \`\${person} has all \${parcels.length} parcels.\`;
}
`;

const generate = `// Prints tasks.jsonl, the same rows every time: \`npm run tasks\` writes it.
const people = [
  { person_id: "p-71", name: "Ada Quill" },
  { person_id: "p-18", name: "Ines Marlow" },
  { person_id: "p-45", name: "Mira Holt" },
  { person_id: "p-93", name: "Owen Vance" },
];

for (let row = 0; row < 12; row++) {
  const person = people[row % people.length]?.name;
  // In every row each person has one to three parcels, so that there is always one to hand out and one to leave.
  const parcels = people.flatMap(({ person_id }, at) =>
    Array.from({ length: 1 + ((row + at) % 3) }, (_, n) => ({
      parcel_id: \`x-\${100 + ((row * 37 + at * 11 + n * 3) % 900)}\`,
      person_id,
      shelf: "ABCD"[(row + n) % 4],
    })),
  );
  const content = \`\${person} is here. Hand out every parcel that waits for them, and no other.\`;
  console.log(JSON.stringify({ responses_create_params: { input: [{ role: "user", content }] }, person, parcels }));
}
`;

export const multiStep: Kind = {
  parts: [
    "a `state` with structure, a `seed` that makes it from a task, tools whose results are arguments of other tools, and a",
    "`verify` that gives figures besides the reward.",
  ].join("\n"),
  environment,
  solution,
  generate,
};
