// An environment for tests: verify reads the model's answer, and a tool may be slow or take null.
import { defineEnvironment, tool } from "holdfast";
import { z } from "zod";

const starts = new Map<string, number>();

const slow = {
  description: "Wait, and return how often a slow tool of the session was started.",
  input: z.object({ seconds: z.number() }),
};

async function wait(session: string, seconds: number): Promise<{ started: number }> {
  const started = (starts.get(session) ?? 0) + 1;
  starts.set(session, started);
  await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
  return { started };
}

const answered = z.object({
  output: z.array(z.object({ type: z.literal("message"), content: z.array(z.object({ text: z.string() })) })),
});

export default defineEnvironment({
  name: "answers",
  state: z.object({ notes: z.array(z.string().nullable()).default([]) }),
  task: z.object({ answer: z.string() }),
  seed: () => ({ notes: [] }),
  tools: {
    wait: tool({ ...slow, concurrent: true, run: ({ session }, { seconds }) => wait(session, seconds) }),
    hold: tool({ ...slow, run: ({ session }, { seconds }) => wait(session, seconds) }),
    note: tool({
      description: "Keep a note.",
      input: z.object({ note: z.string().nullable(), again: z.number().int().optional() }),
      run: ({ state }, { note, again = 0 }) => {
        for (let at = 0; at <= again; at++) state.notes.push(note);
        return { notes: state.notes.length };
      },
    }),
  },
  verify: ({ task, response }) => {
    if (response === undefined) throw new Error("verify needs the model's answer, and there is no response");
    const text = answered.parse(response).output.flatMap(({ content }) => content.map((part) => part.text));
    return Number(text.join("").trim() === task.answer);
  },
});
