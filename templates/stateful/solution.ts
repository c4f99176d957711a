// The calls that win an episode: read the temperature, then turn until it is the goal. `yield` gives what they returned.
export default function* solution({ goal }: { goal: number }) {
  const [{ celsius }] = (yield [{ tool: "read", input: {} }]) as [{ celsius: number }];
  const tool = goal > celsius ? "turn_up" : "turn_down";
  for (let left = Math.abs(goal - celsius); left > 0; left -= 5) {
    yield { tool, input: { degrees: Math.min(left, 5) } };
  }
  return `It is set to ${goal} degrees.`;
}
