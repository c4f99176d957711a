// Formats a transcript for people. A model's text cannot control the terminal, or imitate a line of the transcript.
import { showJson } from "../../core/ellipsis.ts";
import { summarizeThrown } from "../../core/event.ts";
import { plain } from "../../io/plain.ts";
import type { Change, Step, Transcript } from "../../rollout/show.ts";

const [longestValue, mostChanges] = [100, 8];

type Paint = (text: string, style: keyof typeof styles) => string;
const styles = { who: 36, tool: 33, state: 32, good: 32, bad: 31, dim: 2 };

export function transcriptText(transcript: Transcript, isColoured: boolean): string {
  const paint: Paint = (text, style) => (isColoured ? `\u001B[${styles[style]}m${text}\u001B[0m` : text);
  const { began, steps } = transcript;
  const lines = [
    paint(heading(transcript), "dim"),
    "",
    ...(began && began.length > 0 ? [paint(stateLine(began, "is"), "state")] : []),
    ...steps.flatMap((step) => stepLines(step, paint)),
    "",
    ...endLines(transcript, paint),
  ];
  return `${lines.join("\n")}\n`;
}

function heading({ task, repeat, model, session }: Transcript): string {
  const parts = [
    `task ${task ?? "?"}, repeat ${repeat ?? "?"}`,
    ...(model === undefined ? [] : [`model ${visible(model)}`]),
    ...(session === undefined ? [] : [`session ${visible(session)}`]),
  ];
  return parts.join(", ");
}

function stepLines(step: Step, paint: Paint): string[] {
  switch (step.type) {
    case "said":
      return [`${paint(`[${visible(step.who)}]:`, "who")} ${visible(step.text)}`];
    case "thought":
      return step.text === "" ? [] : [paint(`[agent thinks]: ${visible(step.text)}`, "dim")];
    case "called":
      return [`${paint("[agent]", "who")} calls ${paint(visible(step.tool), "tool")} ${visible(step.input)}`];
    case "aside":
      return [paint(`[${step.why}]: ${visible(step.text)}`, "dim")];
    case "answered": {
      const { changes = [], thrown, log = [] } = step;
      const came = `${paint(`[${visible(step.tool)}]:`, "tool")} ${visible(step.output)}`;
      const failed = thrown ? [paint(`    ${visible(thrown.stack ?? summarizeThrown(thrown))}`, "bad")] : [];
      const logged = log.map((line) => paint(`    log: ${visible(line)}`, "dim"));
      return [
        ...logged,
        came,
        ...failed,
        ...(changes.length === 0 ? [] : [paint(stateLine(changes, "is now"), "state")]),
      ];
    }
    case "other":
      return [paint(visible(JSON.stringify(step.item)), "dim")];
  }
}

function stateLine(changes: Change[], is: string): string {
  const shown = changes.slice(0, mostChanges).map(({ key, value }) => {
    return value === undefined
      ? `${visible(key)} removed`
      : `${visible(key)} ${is} ${visible(showJson(value, longestValue))}`;
  });
  const more = changes.length - shown.length;
  return `(${[...shown, ...(more > 0 ? [`and ${more} more`] : [])].join(", ")})`;
}

function endLines({ reward, verdict, stopped, failure }: Transcript, paint: Paint): string[] {
  const limit = stopped === undefined ? [] : [`stopped at its ${visible(stopped)} limit`];
  if (failure) {
    const { kind, reason, stack } = failure;
    const where = stack === undefined ? [] : [paint(`    ${visible(stack)}`, "bad")];
    return [...limit, paint(`failed: ${visible(kind)}: ${visible(reason)}`, "bad"), ...where];
  }
  if (reward === undefined) return [...limit, paint("no reward", "bad")];
  const details = verdict ? ` ${visible(JSON.stringify(verdict))}` : "";
  return [...limit, paint(`reward ${reward}`, reward > 0 ? "good" : "bad") + details];
}

/** Indents the second and later lines of a text, so that none looks like a separate step. */
const visible = (text: string): string => plain(text).replaceAll(/\n(?!\n|$)/g, "\n    ");
