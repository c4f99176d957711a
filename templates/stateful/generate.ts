// Prints tasks.jsonl, the same rows every time: `npm run tasks` writes it.
for (let row = 0; row < 20; row++) {
  const start = 15 + ((row * 7) % 11);
  // From 6 colder to 6 warmer, and never the same: a task that is won by doing nothing teaches nothing.
  const change = 1 + ((row * 5) % 6);
  const goal = row % 2 === 0 ? Math.min(start + change, 30) : Math.max(start - change, 10);
  const content = `Set the thermostat to ${goal} degrees.`;
  console.log(JSON.stringify({ responses_create_params: { input: [{ role: "user", content }] }, start, goal }));
}
