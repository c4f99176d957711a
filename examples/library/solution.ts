// The calls that win an episode of library. The calls of a turn run in parallel, and need results of the previous
// turn.
interface Found {
  books: { book_id: string; title: string }[];
}

interface Availability {
  copies: { copy_id: string; free: boolean }[];
}

export default function* solution({ wanted }: { wanted: string[] }) {
  const found = (yield wanted.map((query) => ({ tool: "search_books", input: { query } }))) as Found[];
  // A search may find other books too, by the same words.
  const ids = wanted.map((title, at) => found[at]?.books.find((book) => book.title === title)?.book_id ?? title);
  const available = (yield ids.map((book_id) => ({
    tool: "check_availability",
    input: { book_id },
  }))) as Availability[];
  yield ids.map((book_id, at) => {
    const free = available[at]?.copies.find((copy) => copy.free);
    return free
      ? { tool: "borrow_copy", input: { copy_id: free.copy_id } }
      : { tool: "reserve_book", input: { book_id } };
  });
}
