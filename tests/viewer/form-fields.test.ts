// Forms made from the JSON Schemas of tools.
import { expect, test } from "vitest";
import {
  fieldOf,
  initialValue,
  newEntry,
  orAbsent,
  withKey,
  type Field,
} from "../../viewer/src/parts/schema-fields.ts";

const schema = {
  type: "object",
  properties: {
    name: { type: "string", description: "Whose it is." },
    count: { type: "integer", default: 3 },
    price: { type: "number" },
    isGift: { type: "boolean" },
    size: { enum: ["s", "m", 7] },
    tags: { type: "array", items: { type: "string" } },
    to: { type: "object", properties: { street: { type: "string" }, zip: { type: "integer" } }, required: ["street"] },
    extra: { type: "object", additionalProperties: { type: "number" } },
    either: { anyOf: [{ type: "string" }, { type: "integer" }] },
    perhaps: { anyOf: [{ type: "integer" }, { type: "null" }], description: "A number or none." },
    old: { type: ["string", "null"] },
    same: { $ref: "#/properties/to" },
    fixed: { const: "v1" },
    tree: { $ref: "#" },
  },
  required: ["name", "to", "isGift", "perhaps"],
};

const fields = new Map(
  (fieldOf(schema) as Extract<Field, { kind: "object" }>).fields.map(({ name, field }) => [name, field]),
);
const named = (name: string): Field => fields.get(name) as Field;

test("each schema has the field that fits it, and what has none is JSON", () => {
  expect(Object.fromEntries([...fields].map(([name, { kind }]) => [name, kind]))).toEqual({
    name: "text",
    count: "number",
    price: "number",
    isGift: "boolean",
    size: "choice",
    tags: "list",
    to: "object",
    extra: "json",
    either: "json",
    perhaps: "number",
    old: "text",
    same: "object",
    fixed: "choice",
    tree: "object",
  });
  expect(named("count")).toMatchObject({ isWhole: true, isRequired: false });
  expect(named("price")).toMatchObject({ isWhole: false });
  expect(named("perhaps")).toMatchObject({ isNullable: true, isRequired: true, description: "A number or none." });
  expect(named("size")).toMatchObject({ choices: ["s", "m", 7] });
});

test("a form begins with the defaults, and with what is wanted but empty", () => {
  expect(initialValue(fieldOf(schema))).toEqual({ name: "", count: 3, isGift: false, to: { street: "" } });
  expect(initialValue(fieldOf({ type: "object" }))).toEqual({});
  expect(newEntry(fieldOf({ type: "integer" }))).toBe(0);
});

test("what is empty is left out where it may be, and null where that is allowed", () => {
  expect(orAbsent(named("price"), undefined)).toBeUndefined();
  expect(orAbsent(named("old"), "")).toBeUndefined();
  expect(orAbsent(named("name"), "")).toBe("");
  expect(orAbsent(named("perhaps"), undefined)).toBeNull();
  expect(orAbsent(named("same"), {})).toBeUndefined();
  expect(orAbsent(named("count"), 0)).toBe(0);
});

test("a key is set where it is, and is left out without a value", () => {
  expect(Object.keys(withKey({ a: 1, b: 2 }, "a", 3))).toEqual(["a", "b"]);
  expect(withKey({ a: 1, b: 2 }, "a", undefined)).toEqual({ b: 2 });
  expect(withKey(undefined, "a", "x")).toEqual({ a: "x" });
});
