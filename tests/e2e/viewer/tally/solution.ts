// Plays the tasks of tally: most are won, some are lost, and some break in the middle.

interface Task {
  start: number;
  goal: number;
  plan: "win" | "lose" | "break" | "hostile" | "large";
}

const hostile = `<img src=x onerror="document.title='taken over'"><script>document.title='taken over'</script>`;
const megabytes = 2;

export default function* solution({ start, goal, plan }: Task) {
  yield [{ tool: "add", input: { by: 1 } }];
  if (plan === "break") throw new Error("the model went away");
  if (plan === "hostile") yield [{ tool: "note", input: { text: hostile } }];
  if (plan === "large") yield [{ tool: "note", input: { text: "0123456789", times: (megabytes * 1_000_000) / 10 } }];
  if (plan === "lose") return "I give up.";
  yield [{ tool: "add", input: { by: goal - start - 1 } }];
  return `The counter is at ${goal}.`;
}
