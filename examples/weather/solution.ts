// The calls that win an episode of weather: one call for each city, all in one turn.
export default ({ cities }: { cities: string[] }) => [cities.map((city) => ({ tool: "get_weather", input: { city } }))];
