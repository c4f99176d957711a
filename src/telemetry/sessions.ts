// tracedSessions(): records spans for open, seed, call and verify, the operations that run an author's code.
import type { AnyEnvironment } from "../core/environment.ts";
import type { Sessions } from "../core/sessions.ts";
import { shortDigest, type Spans } from "./spans.ts";

export function tracedSessions<E extends AnyEnvironment>(sessions: Sessions<E>, spans: Spans): Sessions<E> {
  const { name: environment, definitions } = sessions.environment;
  const about = { kind: spans.api.SpanKind.INTERNAL, environment };
  const before = (session: string): { [attribute: string]: string } => ({
    "holdfast.environment": environment,
    "holdfast.session": shortDigest(session),
  });
  return {
    ...sessions,
    open: (options) =>
      spans.traced({
        ...about,
        name: "holdfast.open",
        run: () => sessions.open(options),
        before: () => ({ "holdfast.environment": environment }),
        after: ({ session, version }) => ({ "holdfast.session": shortDigest(session), "holdfast.version": version }),
      }),
    call: (session, tool, ...rest) =>
      spans.traced({
        ...about,
        name: "holdfast.call",
        run: () => sessions.call(session, tool, ...rest),
        // An unknown tool name is not recorded, because a model wrote it.
        before: () => ({ ...before(session), "holdfast.tool": definitions.has(tool) ? tool : "unknown tool" }),
        after: (answer) => ({
          "holdfast.outcome": answer.ok ? "ok" : answer.error.code,
          "holdfast.repeated": answer.repeated,
          "holdfast.version": answer.version,
        }),
      }),
    seed: (session, ...rest) =>
      spans.traced({
        ...about,
        name: "holdfast.seed",
        run: () => sessions.seed(session, ...rest),
        before: () => before(session),
        after: ({ repeated, version }) => ({ "holdfast.repeated": repeated, "holdfast.version": version }),
      }),
    verify: (session, options) =>
      spans.traced({
        ...about,
        name: "holdfast.verify",
        run: () => sessions.verify(session, options),
        before: () => before(session),
        after: ({ reward, version }) => ({ "holdfast.reward": reward, "holdfast.version": version }),
      }),
  };
}
