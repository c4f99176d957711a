// A model that answers from a file what another model once answered, and records there what it has not.
import { digestJson } from "../core/digest.ts";
import { boundary, HoldfastError } from "../core/errors.ts";
import { copyJson, type Json } from "../core/json.ts";
import { givePieces, refuseCancelled } from "./local-response.ts";
import type { Model, ModelResponse } from "../core/model.ts";
import { appendEntry, prepare, readEntries } from "./recorded/file.ts";
import { nearestTo } from "./recorded/nearest.ts";

export interface RecordedModelOptions {
  /** JSON lines of `{ digest, model, request, response }`. */
  file: string;
  /** Is asked what the file has no answer to. Without one, the file must have them all. */
  model?: Model;
}

/** By digest, in the order of the file. An answer is let go once it was given. */
type Answers = Map<string, { left: ModelResponse[]; given: number }>;

/**
 * A model that is recorded once and then replayed: no key, no cost, the same answers.
 *
 * A request is known by its digest, in which the order of keys does not count. The file may have several answers to one
 * request, as a model with a temperature gives: the first time that this object is asked it gives the first, the second
 * time the second. So repeats are replayed as they were recorded, and one repeat too many is not answered. Requests that
 * are made at once take their answers in the order in which they were made.
 *
 * With a `model`, only answers count that a model of that name gave; the others stay in the file. What the file lacks is
 * asked of the model and appended, in the order in which answers come; failures are not. Without a `model`, every
 * answer counts, and what the file lacks is `model_exhausted`, with a message that says what differs.
 *
 * The file is read at the first request and its answers are kept in memory until they are given. What other processes
 * append later is not seen. They may append at the same time, on a local disk: lines do not mix. A line that a killed
 * process left unfinished is passed over. Any other line that cannot be read is `store_corrupt`.
 *
 * @example
 * const live = recordedModel({ file: "answers.jsonl", model: openaiModel({ model: "gpt-5" }) });
 * const replay = recordedModel({ file: "answers.jsonl" });
 */
export function recordedModel({ file, model }: RecordedModelOptions): Model {
  let loading: Promise<Answers> | undefined;
  const loaded = (): Promise<Answers> => {
    // A failure is not kept: the file may be there the next time.
    loading ??= load(file, model).catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };

  // One after the other, or requests that are the same would take their answers in an order of chance.
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(run: () => Promise<T>): Promise<T> => {
    const mine = last.then(run);
    last = mine.catch(() => undefined);
    return mine;
  };

  return {
    name: `recorded:${file}`,
    async respond(request, options = {}) {
      refuseCancelled(options.signal);
      const asked = copyJson(request, "the request", "drop");
      const { digest, response, given } = await inTurn(async () => {
        const answers = await loaded();
        const digest = await digestJson(asked);
        refuseCancelled(options.signal);
        return { digest, ...take(answers, digest) };
      });
      if (response) {
        givePieces(response.output, options);
        return response;
      }
      if (!model) throw await notRecorded(file, asked, digest, given);
      const answer = await boundary("model_failed", `the model ${model.name}`, () => model.respond(request, options));
      return record(file, { digest, model: model.name, request: asked }, answer);
    },
  };
}

async function load(file: string, model: Model | undefined): Promise<Answers> {
  if (model) await prepare(file);
  const answers: Answers = new Map();
  for await (const entry of readEntries(file)) {
    if (model && entry.model !== model.name) continue;
    const same = answers.get(entry.digest);
    if (same) same.left.push(entry.response);
    else answers.set(entry.digest, { left: [entry.response], given: 0 });
  }
  return answers;
}

function take(answers: Answers, digest: string): { response: ModelResponse | undefined; given: number } {
  const same = answers.get(digest);
  const response = same?.left.shift();
  if (same && response) same.given++;
  return { response, given: same?.given ?? 0 };
}

async function record(
  file: string,
  entry: { digest: string; model: string; request: Json },
  answer: ModelResponse,
): Promise<ModelResponse> {
  // What is given now is what a replay gives.
  const response = copyJson(answer, "the model's answer", "drop") as unknown as ModelResponse;
  await appendEntry(file, { ...entry, response });
  return response;
}

async function notRecorded(file: string, asked: Json, digest: string, given: number): Promise<HoldfastError> {
  const why =
    given > 0
      ? `the recording has ${given} of them, and all were given; record as many repeats as are asked`
      : // Read again, so that the requests need no room in memory: this ends the run as a rule.
        await nearestTo(asked, readEntries(file));
  const what = given > 0 ? "no further answer" : "no answer";
  return new HoldfastError("model_exhausted", `${file} has ${what} to the request ${digest}: ${why}`, {
    detail: { digest },
  });
}
