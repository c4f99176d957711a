// Prints tasks.jsonl, the same rows every time: `npm run tasks` writes it.
const people = [
  { person_id: "p-71", name: "Ada Quill" },
  { person_id: "p-18", name: "Ines Marlow" },
  { person_id: "p-45", name: "Mira Holt" },
  { person_id: "p-93", name: "Owen Vance" },
];

for (let row = 0; row < 12; row++) {
  const person = people[row % people.length]?.name;
  // In every row each person has one to three parcels, so that there is always one to hand out and one to leave.
  const parcels = people.flatMap(({ person_id }, at) =>
    Array.from({ length: 1 + ((row + at) % 3) }, (_, n) => ({
      parcel_id: `x-${100 + ((row * 37 + at * 11 + n * 3) % 900)}`,
      person_id,
      shelf: "ABCD"[(row + n) % 4],
    })),
  );
  const content = `${person} is here. Hand out every parcel that waits for them, and no other.`;
  console.log(JSON.stringify({ responses_create_params: { input: [{ role: "user", content }] }, person, parcels }));
}
