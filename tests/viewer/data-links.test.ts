// A link contains the whole address of a view.
import fc from "fast-check";
import { expect, test } from "vitest";
import { linkTo, readAddress } from "../../viewer/src/link.ts";

const part = fc.string({ minLength: 1, unit: "grapheme" });

test("reading a link returns the address it was made from, with any content", () => {
  const parameters = fc.dictionary(fc.constantFrom("v", "text", "show"), part);
  fc.assert(
    fc.property(fc.array(part), parameters, (at, given) => {
      const read = readAddress(linkTo(at, given));
      expect(read.at).toEqual(at);
      expect(Object.fromEntries(read.parameters)).toEqual({ ...given });
    }),
  );
});

test("simple names are not encoded", () => {
  expect(linkTo(["runs", 0, 12], { v: 3, text: undefined, sort: "" })).toBe("#at=runs/0/12&v=3");
});

test("an address without a hash is the home page", () => {
  expect(readAddress("").at).toEqual([]);
  expect(readAddress("#at=%25").at).toEqual(["%"]);
});
