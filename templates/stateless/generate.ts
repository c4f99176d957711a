// Prints tasks.jsonl, the same rows every time: `npm run tasks` writes it.
const tasks = [
  ["apple"],
  ["honey"],
  ["milk"],
  ["rice"],
  ["bread", "cheese"],
  ["apple", "milk"],
  ["honey", "bread"],
  ["rice", "apple"],
  ["apple", "bread", "cheese"],
  ["milk", "honey", "rice"],
  ["cheese", "rice", "bread", "milk"],
  ["apple", "bread", "cheese", "honey", "milk", "rice"],
];
for (const items of tasks) {
  const content = `What do these cost together: ${items.join(", ")}?`;
  console.log(JSON.stringify({ responses_create_params: { input: [{ role: "user", content }] }, items }));
}
