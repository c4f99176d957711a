// The calls that win an episode of counter: read it, then add the difference.
export default function* solution({ expected_count }: { expected_count: number }) {
  const [value] = (yield [{ tool: "get_counter_value", input: {} }]) as [{ count: number }];
  yield [{ tool: "increment_counter", input: { count: expected_count - value.count } }];
}
