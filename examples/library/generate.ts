// Prints tasks.jsonl. From the root: npx jiti examples/library/generate.ts
import { z } from "zod";
import environment from "./environment.ts";

const tools = [...environment.definitions].map(([name, { description, input }]) => {
  const { $schema: _, ...parameters } = z.toJSONSchema(input as z.ZodType);
  return { type: "function", name, description, parameters, strict: true };
});

const loan = (book_id: string, copies: number, due: string) => ({ book_id, copies, due });
const tasks = [
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
for (const task of tasks) {
  const books = new Intl.ListFormat("en").format(task.wanted.map((title) => `"${title}"`));
  const content = `Get me ${books}. Borrow a copy where one is free, reserve the book where none is, and tell me the dates.`;
  console.log(JSON.stringify({ responses_create_params: { input: [{ role: "user", content }], tools }, ...task }));
}
