// Session state: shows when the writes of a callback are stored. Every callback writes a key, then reads the store.
import { defineAgent, scriptedModel, type AgentContext } from "holdfast";

const [beforeAgent, beforeModel, afterModel, afterAgent] = [
  "before_agent_callback_state_key",
  "before_model_callback_state_key",
  "after_model_callback_state_key",
  "after_agent_callback_state_key",
] as const;

export default defineAgent({
  name: "root_agent",
  description: "Shows when state is stored.",
  instruction: "Greet the user in one sentence, and offer to verify something.",
  // No key, no network. `--model openai:NAME` uses a real model.
  model: scriptedModel(["Hello! How can I help you verify something today?\n"]),
  callbacks: {
    async beforeAgent(context) {
      // A returned value answers in the agent's place: the model is not asked, and the other callbacks do not run.
      if (beforeAgent in context.state) return "Sorry, I can only reply once.";
      context.state[beforeAgent] = "before_agent_callback_state_value";
      await check(context, "In before_agent_callback", { cached: [beforeAgent], stored: [], unstored: [beforeAgent] });
      return undefined;
    },
    async beforeModel(context) {
      context.state[beforeModel] = "before_model_callback_state_value";
      const cached = [beforeAgent, beforeModel];
      await check(context, "In before_model_callback", { cached, stored: [beforeAgent], unstored: [beforeModel] });
    },
    async afterModel(context) {
      context.state[afterModel] = "after_model_callback_state_value";
      const cached = [beforeAgent, beforeModel, afterModel];
      // The writes of beforeModel and afterModel are stored together, and only with the answer.
      const unstored = [beforeModel, afterModel];
      await check(context, "In after_model_callback", { cached, stored: [beforeAgent], unstored });
    },
    async afterAgent(context) {
      context.state[afterAgent] = "after_agent_callback_state_value";
      const stored = [beforeAgent, beforeModel, afterModel];
      const cached = [...stored, afterAgent];
      await check(context, "In after_agent_callback", { cached, stored, unstored: [afterAgent] });
    },
  },
});

interface Expected {
  /** The keys that the rest of the invocation sees. */
  cached: string[];
  /** The keys that are stored. */
  stored: string[];
  /** The keys that are not stored yet. */
  unstored: string[];
}

async function check(context: AgentContext, title: string, { cached, stored, unstored }: Expected): Promise<void> {
  // Read from the store, as another process would.
  const inStore = await context.stored();
  console.log(`===================== ${title} ==============================`);
  line("cached in context", cached, (key) => key in context.state);
  line("already persisted in session", stored, (key) => key in inStore);
  line("not persisted in session yet", unstored, (key) => !(key in inStore));
  console.log("=".repeat(60));
}

function line(what: string, keys: string[], holds: (key: string) => boolean): void {
  const passes = keys.every(holds);
  if (!passes) process.exitCode = 1;
  const list = `[${keys.map((key) => `'${key}'`).join(", ")}]`;
  console.log(`** Asserting keys are ${what}: ${list} ${passes ? "pass ✅" : "fail ❌"}`);
}
