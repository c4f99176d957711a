// Prints tasks.jsonl. From the root: npx jiti examples/library/generate.ts
// With a number, prints that many random tasks for training: npx jiti examples/library/generate.ts 96 > tasks_train.jsonl
import { z } from "zod";
import environment, { catalogue } from "./environment.ts";

const tools = [...environment.definitions].map(([name, { description, input }]) => {
  const { $schema: _, ...parameters } = z.toJSONSchema(input as z.ZodType);
  return { type: "function", name, description, parameters, strict: true };
});

const loan = (book_id: string, copies: number, due: string) => ({ book_id, copies, due });
interface Task {
  today: string;
  on_loan: ReturnType<typeof loan>[];
  wanted: string[];
}

const tasks: Task[] = [
  { today: "2026-03-02", on_loan: [], wanted: ["Salt"] },
  { today: "2026-03-02", on_loan: [loan("b-254", 1, "2026-03-09")], wanted: ["Salt"] },
  { today: "2026-03-02", on_loan: [loan("b-417", 1, "2026-03-04")], wanted: ["The Tide Tables", "Kelp"] },
  { today: "2026-03-17", on_loan: [loan("b-417", 2, "2026-03-20")], wanted: ["The Tide Tables", "Knots"] },
  {
    today: "2026-04-01",
    on_loan: [loan("b-688", 3, "2026-04-11"), loan("b-846", 1, "2026-04-03")],
    wanted: ["The Slow Ferry", "The Cartographer's Winter", "Lighthouse Keeping"],
  },
  {
    today: "2026-12-28",
    on_loan: [loan("b-902", 1, "2026-12-31"), loan("b-135", 1, "2027-01-02"), loan("b-309", 1, "2026-12-30")],
    wanted: ["A Field Guide to Harbours", "Anchors and Chains", "Kelp"],
  },
  {
    today: "2028-02-20",
    on_loan: [loan("b-571", 2, "2028-02-29"), loan("b-720", 1, "2028-03-01")],
    wanted: ["Lighthouse Keeping", "Knots", "Salt", "Kelp", "The Slow Ferry"],
  },
];

/** Random tasks with one to three wanted books; some copies of them are on loan. */
function randomTasks(count: number): Task[] {
  let state = 1;
  // mulberry32
  const below = (limit: number): number => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) % limit;
  };
  return Array.from({ length: count }, () => {
    const shelf = [...catalogue];
    const books = Array.from({ length: 1 + below(3) }, () => shelf.splice(below(shelf.length), 1)).flat();
    const on_loan = books.flatMap(({ book_id, copies }) => {
      const lent = below(2) * (1 + below(copies));
      return lent > 0 ? [loan(book_id, lent, `2026-03-${10 + below(20)}`)] : [];
    });
    return { today: "2026-03-02", on_loan, wanted: books.map(({ title }) => title) };
  });
}

const count = Number(process.argv[2] ?? 0);
for (const task of count > 0 ? randomTasks(count) : tasks) {
  const books = new Intl.ListFormat("en").format(task.wanted.map((title) => `"${title}"`));
  const content = `Get me ${books}. Borrow a copy where one is free, reserve the book where none is, and tell me the dates.`;
  const input = [{ role: "user", content }];
  // The environment fills in the tools of a row that has none.
  const responses_create_params = count > 0 ? { input } : { input, tools };
  console.log(JSON.stringify({ responses_create_params, ...task }));
}
