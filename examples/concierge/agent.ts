// Concierge: an agent that books tables, remembers its guests from one conversation to the next, and asks before it spends.
import { defineAgent, scriptedModel, tool, type ModelRequest } from "holdfast";
import { z } from "zod";

/** The price of holding a table, per guest. */
const deposit = 10;
/** The amount that may be spent without asking. */
const most = 50;

export default defineAgent({
  name: "concierge",
  description: "Books tables and remembers what its guests like.",
  // All conversations of a guest share `user:` state; with "?" it may be missing.
  instruction: "You are the concierge of a hotel. Known of the guest: {user:likes?}. Use the tools, and be brief.",
  model: scriptedModel(script),
  // The last answer is stored in the state under this key.
  outputKey: "last_answer",
  tools: {
    remember: tool({
      description: "Remember what the guest likes, in this and all later conversations.",
      input: z.object({ like: z.string() }),
      run: ({ state }, { like }) => {
        state["user:likes"] = [...new Set([...(state["user:likes"] ?? []), like])];
        return { remembered: like };
      },
    }),
    recall: tool({
      description: "What is known of the guest, and what is booked.",
      run: ({ state }) => ({ likes: state["user:likes"] ?? [], booked: state["booked"] ?? [] }),
    }),
    book_table: tool({
      description: `Book a table. It costs ${deposit} for each guest to hold.`,
      input: z.object({ guests: z.number().int().min(1) }),
      run: ({ state }, { guests }) => {
        const booking = { guests, paid: guests * deposit };
        state["booked"] = [...(state["booked"] ?? []), booking];
        return booking;
      },
    }),
  },
  callbacks: {
    // Only the guest's own words count as a yes, not the model's interpretation of them.
    beforeModel({ state }, request) {
      const answer = /^(yes|no)\b/i.exec(guestSays(request) ?? "")?.[1]?.toLowerCase();
      if (answer === undefined || state["asked"] === undefined) return;
      if (answer === "yes") state["approved"] = state["asked"];
      delete state["asked"];
    },
    // A returned value is the tool's result: the tool itself does not run.
    beforeTool({ state }, { tool, input }) {
      const price = tool === "book_table" ? Number((input as { guests?: unknown }).guests) * deposit : 0;
      if (!(price > Math.max(most, state["approved"] ?? 0))) return undefined;
      state["asked"] = price;
      return { refused: `${price} is more than ${most}; the guest has to say yes first` };
    },
    // A yes is good for one booking.
    afterTool({ state }, { tool, output }) {
      if (tool === "book_table" && "paid" in Object(output)) delete state["approved"];
    },
  },
});

/** The guest's last message; undefined while the agent works on it. */
function guestSays({ input }: ModelRequest): string | undefined {
  const last = input.at(-1);
  return last?.type === "message" && last["role"] === "user" ? String(last["content"]) : undefined;
}

/** Replaces a model, so that the example needs no key. `--model openai:NAME` uses a real one. */
function script(request: ModelRequest) {
  const said = guestSays(request);
  if (said === undefined) return inWords(JSON.parse(String(request.input.at(-1)?.["output"])) as Result);
  const call = (name: string, args: Record<string, string | number> = {}) => ({ calls: [{ name, arguments: args }] });
  const [, like] = /\bI (?:like|love|prefer|am) (.+?)[.!]?$/i.exec(said) ?? [];
  if (like !== undefined) return call("remember", { like });
  const bookings = request.input.filter((item) => item.type === "message" && /\btable\b/.test(String(item["content"])));
  const [, guests] = /\bfor (\d+)\b/.exec(String(bookings.at(-1)?.["content"])) ?? [];
  if (guests !== undefined && /\btable\b|^yes\b/i.test(said)) return call("book_table", { guests: Number(guests) });
  return /\bknow\b|\bremember\b|\bbooked\b/i.test(said) ? call("recall") : "What can I do for you?";
}

interface Result {
  remembered?: string;
  likes?: string[];
  booked?: { guests: number }[];
  guests?: number;
  paid?: number;
  refused?: string;
}

function inWords({ remembered, likes, booked = [], guests, paid, refused }: Result): string {
  if (refused !== undefined) return `Shall I go on? ${refused}.`;
  if (remembered !== undefined) return `I will remember: ${remembered}.`;
  if (paid !== undefined) return `A table for ${guests} is booked; ${paid} was paid to hold it.`;
  const tables = booked.map((table) => `a table for ${table.guests}`);
  const known = likes?.length ? `You like ${likes.join(" and ")}.` : "I know nothing of you yet.";
  return tables.length > 0 ? `${known} You have booked ${tables.join(" and ")}.` : known;
}
