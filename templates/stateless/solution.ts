// The calls that win an episode: one for each item, all at once. What it returns is what the agent says in the end.
export default function* solution({ items }: { items: string[] }) {
  const found = (yield items.map((item) => ({ tool: "get_price", input: { item } }))) as { cents: number }[];
  return `Together they cost ${found.reduce((sum, { cents }) => sum + cents, 0)} cents.`;
}
