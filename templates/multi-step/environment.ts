// An environment in several steps: a mail room. Tools need each other's results: a name gives a person's id, the id
// gives parcels, and a parcel can be handed out.
import { defineEnvironment, refuse, tool } from "holdfast";
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
  // The state that an episode keeps from call to call. An unseeded session has the defaults.
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
        if (!people.has(person_id)) throw refuse(`there is no person "${person_id}"; find_person gives the ids`);
        const waiting = Object.entries(state.parcels).filter(([, of]) => of.person_id === person_id && !of.handed_out);
        return { parcels: waiting.map(([parcel_id, { shelf }]) => ({ parcel_id, shelf })) };
      },
    }),
    hand_out: tool({
      description: "Hand out a parcel. It cannot be taken back.",
      input: z.object({ parcel_id: z.string() }),
      // `state` is a draft: assign to it. The model reads the returned value.
      run: ({ state }, { parcel_id }) => {
        const parcel = Object.hasOwn(state.parcels, parcel_id) ? state.parcels[parcel_id] : undefined;
        if (!parcel) throw refuse(`there is no parcel "${parcel_id}"; list_parcels gives the ids`);
        if (parcel.handed_out) throw refuse(`${parcel_id} was handed out before`);
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
