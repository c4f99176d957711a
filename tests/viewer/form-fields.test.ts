// Forms built from the JSON Schemas of tools.
import { expect, test } from "vitest";
import {
  toField,
  initialValue,
  newEntry,
  omitEmpty,
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
  (toField(schema) as Extract<Field, { kind: "object" }>).fields.map(({ name, field }) => [name, field]),
);
const named = (name: string): Field => fields.get(name) as Field;

test("each schema maps to its field, and an unsupported schema to JSON", () => {
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

test("a form starts with the defaults, and with empty values for required fields", () => {
  expect(initialValue(toField(schema))).toEqual({ name: "", count: 3, isGift: false, to: { street: "" } });
  expect(initialValue(toField({ type: "object" }))).toEqual({});
  expect(newEntry(toField({ type: "integer" }))).toBe(0);
});

test("an empty value is omitted if optional, and null if nullable", () => {
  expect(omitEmpty(named("price"), undefined)).toBeUndefined();
  expect(omitEmpty(named("old"), "")).toBeUndefined();
  expect(omitEmpty(named("name"), "")).toBe("");
  expect(omitEmpty(named("perhaps"), undefined)).toBeNull();
  expect(omitEmpty(named("same"), {})).toBeUndefined();
  expect(omitEmpty(named("count"), 0)).toBe(0);
});

test("setting a key keeps its position, and an undefined value removes it", () => {
  expect(Object.keys(withKey({ a: 1, b: 2 }, "a", 3))).toEqual(["a", "b"]);
  expect(withKey({ a: 1, b: 2 }, "a", undefined)).toEqual({ b: 2 });
  expect(withKey(undefined, "a", "x")).toEqual({ a: "x" });
});
