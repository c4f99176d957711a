// An environment for tests: seed, tool and verify wait until as many of them run as the task says.
// So they end only if a client sends them at once. A meeting that stays incomplete fails.
import { defineEnvironment, refuse, tool } from "holdfast";
import { z } from "zod";

const places = new Map<string, { arrived: number; complete: Promise<void>; open: () => void }>();

async function meet(place: string, size: number): Promise<void> {
  let meeting = places.get(place);
  if (!meeting) {
    let open = (): void => undefined;
    const complete = new Promise<void>((resolve) => (open = resolve));
    meeting = { arrived: 0, complete, open };
    places.set(place, meeting);
  }
  meeting.arrived += 1;
  if (meeting.arrived >= size) meeting.open();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(refuse(`${meeting.arrived} of ${size} came to ${place}`)), 20_000);
  });
  await Promise.race([meeting.complete, late]).finally(() => clearTimeout(timer));
}

export default defineEnvironment({
  name: "meeting",
  state: z.object({ met: z.number().int().default(0) }),
  task: z.object({ place: z.string(), seeds: z.number().int(), verifies: z.number().int() }),
  seed: async ({ task }) => {
    await meet(`seed ${task.place}`, task.seeds);
    return { met: 0 };
  },
  tools: {
    meet: tool({
      description: "Wait for others.\nArgs: none of these are arguments.",
      concurrent: true,
      input: z.object({
        place: z.string().describe("Where to meet.\nnote: any text will do."),
        size: z.number().int(),
        mood: z.enum(["calm", "loud"]).optional(),
        others: z.array(z.object({ name: z.string() })).optional(),
      }),
      run: async ({ update }, { place, size }) => {
        await meet(`tool ${place}`, size);
        update((state) => void (state.met += 1));
        return { size };
      },
    }),
  },
  verify: async ({ state, task }) => {
    await meet(`verify ${task.place}`, task.verifies);
    return state.met;
  },
});
