// The calls that win an episode. Each turn needs the results of the turn before; the calls of a list are made at once.
interface Found {
  people: { person_id: string; name: string }[];
}

interface Waiting {
  parcels: { parcel_id: string }[];
}

export default function* solution({ person }: { person: string }) {
  const [{ people }] = (yield [{ tool: "find_person", input: { name: person } }]) as [Found];
  const person_id = people.find(({ name }) => name === person)?.person_id ?? "";
  const [{ parcels }] = (yield [{ tool: "list_parcels", input: { person_id } }]) as [Waiting];
  yield parcels.map(({ parcel_id }) => ({ tool: "hand_out", input: { parcel_id } }));
  return `${person} has all ${parcels.length} parcels.`;
}
