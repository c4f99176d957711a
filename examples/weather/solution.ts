// The calls that win an episode of weather: one for each city, all at once.
export default ({ cities }: { cities: string[] }) => [cities.map((city) => ({ tool: "get_weather", input: { city } }))];
