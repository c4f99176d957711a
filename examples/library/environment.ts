// Library: tools that need each other's results. Search returns book ids, and a book's copies have copy ids.
// A copy can be borrowed until a date, or the book reserved until one is returned.
import { defineEnvironment, refuse, tool } from "holdfast";
import { z } from "zod";

const loanDays = 21;
const mostLoans = 4;

// Ids are opaque, so that they can only be found by searching.
export const catalogue = [
  { book_id: "b-417", title: "The Tide Tables", author: "Ines Marlow", copies: 2 },
  { book_id: "b-902", title: "A Field Guide to Harbours", author: "Ines Marlow", copies: 1 },
  { book_id: "b-135", title: "Anchors and Chains", author: "Tomas Reed", copies: 1 },
  { book_id: "b-688", title: "The Slow Ferry", author: "Ada Quill", copies: 3 },
  { book_id: "b-254", title: "Salt", author: "Ada Quill", copies: 1 },
  { book_id: "b-571", title: "Lighthouse Keeping", author: "Owen Vance", copies: 2 },
  { book_id: "b-309", title: "Kelp", author: "Mira Holt", copies: 1 },
  { book_id: "b-846", title: "The Cartographer's Winter", author: "Mira Holt", copies: 2 },
  { book_id: "b-720", title: "Knots", author: "Tomas Reed", copies: 2 },
];

/** Returns the date `days` days after a day, as in 2026-03-02. */
function addDays(day: string, days: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10);
}

const copy = z.object({ book_id: z.string(), due: z.iso.date().nullable() });

export default defineEnvironment({
  name: "library",
  description: "A library to search, borrow and reserve in.",
  state: z.object({
    today: z.iso.date().default("2026-03-02"),
    copies: z.record(z.string(), copy).default({}),
    loans: z.array(z.string()).default([]),
    reservations: z.array(z.string()).default([]),
  }),
  // `on_loan` has other readers' loans: the number of lent copies of a book, from the first, and the earliest due date.
  task: z.object({
    today: z.iso.date(),
    on_loan: z.array(z.object({ book_id: z.string(), copies: z.int(), due: z.iso.date() })).default([]),
    wanted: z.array(z.string()).min(1),
  }),
  seed: ({ task }) => {
    const copies: Record<string, z.infer<typeof copy>> = {};
    for (const { book_id, copies: count } of catalogue) {
      const lent = task.on_loan.find((loan) => loan.book_id === book_id);
      for (let n = 0; n < count; n++) {
        const due = lent && n < lent.copies ? addDays(lent.due, n) : null;
        copies[`${book_id}-${n + 1}`] = { book_id, due };
      }
    }
    return { today: task.today, copies };
  },
  tools: {
    search_books: tool({
      description: "Find books by words of their title or author. Gives their ids.",
      input: z.object({ query: z.string().min(1) }),
      run: (_, { query }) => {
        const words = query.toLowerCase().split(/\s+/);
        const matches = catalogue.filter(({ title, author }) =>
          words.every((word) => `${title} ${author}`.toLowerCase().includes(word)),
        );
        return { books: matches.map(({ book_id, title, author }) => ({ book_id, title, author })) };
      },
    }),
    check_availability: tool({
      description: "The copies of a book: which are free, and when the others are due back.",
      input: z.object({ book_id: z.string() }),
      run: ({ state }, { book_id }) => {
        const copies = Object.entries(state.copies).filter(([, copy]) => copy.book_id === book_id);
        if (copies.length === 0) throw refuse(`there is no book "${book_id}"; search_books gives the ids of books`);
        return { copies: copies.map(([copy_id, { due }]) => ({ copy_id, free: due === null, due })) };
      },
    }),
    borrow_copy: tool({
      description: `Borrow a free copy for ${loanDays} days. At most ${mostLoans} at a time.`,
      input: z.object({ copy_id: z.string() }),
      run: ({ state }, { copy_id }) => {
        const copy = Object.hasOwn(state.copies, copy_id) ? state.copies[copy_id] : undefined;
        if (!copy) throw refuse(`there is no copy "${copy_id}"; check_availability gives the ids of copies`);
        if (copy.due !== null) throw refuse(`${copy_id} is on loan until ${copy.due}; reserve_book puts you in line`);
        if (state.loans.length >= mostLoans)
          throw refuse(`you have ${mostLoans} loans, which is the most there can be`);
        copy.due = addDays(state.today, loanDays);
        state.loans.push(copy_id);
        return { copy_id, due: copy.due };
      },
    }),
    reserve_book: tool({
      description: "Get in line for a book of which no copy is free.",
      input: z.object({ book_id: z.string() }),
      run: ({ state }, { book_id }) => {
        const dues = Object.values(state.copies).flatMap((copy) => (copy.book_id === book_id ? [copy.due] : []));
        if (dues.length === 0) throw refuse(`there is no book "${book_id}"; search_books gives the ids of books`);
        if (dues.includes(null)) throw refuse(`a copy of ${book_id} is free; borrow_copy lends it`);
        if (state.reservations.includes(book_id)) throw refuse(`you have reserved ${book_id} already`);
        state.reservations.push(book_id);
        return { book_id, ready_on: addDays(dues.toSorted()[0] as string, 1) };
      },
    }),
  },
  // Every wanted book is borrowed if a copy was free and reserved if not, and no other book is.
  verify: ({ state, task }) => {
    const lent = new Map(task.on_loan.map(({ book_id, copies }) => [book_id, copies]));
    const wanted = catalogue.filter(({ title }) => task.wanted.includes(title));
    const isFree = ({ book_id, copies }: (typeof catalogue)[number]): boolean => (lent.get(book_id) ?? 0) < copies;
    const ids = (books: typeof catalogue): string => JSON.stringify(books.map(({ book_id }) => book_id).sort());
    const borrowed = state.loans.map((copy_id) => state.copies[copy_id]?.book_id).sort();
    const reserved = [...state.reservations].sort();
    const right =
      JSON.stringify(borrowed) === ids(wanted.filter(isFree)) &&
      JSON.stringify(reserved) === ids(wanted.filter((book) => !isFree(book)));
    return { reward: Number(right), borrowed: borrowed.length, reserved: reserved.length };
  },
});
