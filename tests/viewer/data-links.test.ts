// A link to a view says all that the view is.
import fc from "fast-check";
import { expect, test } from "vitest";
import { linkTo, readAddress } from "../../viewer/src/link.ts";

const part = fc.string({ minLength: 1, unit: "grapheme" });

test("an address that is read from a link is the one it was made of, whatever is in it", () => {
  const parameters = fc.dictionary(fc.constantFrom("v", "text", "show"), part);
  fc.assert(
    fc.property(fc.array(part), parameters, (at, given) => {
      const read = readAddress(linkTo(at, given));
      expect(read.at).toEqual(at);
      expect(Object.fromEntries(read.parameters)).toEqual({ ...given });
    }),
  );
});

test("plain names are written as they are", () => {
  expect(linkTo(["runs", 0, 12], { v: 3, text: undefined, sort: "" })).toBe("#at=runs/0/12&v=3");
});

test("without a hash it is the first page", () => {
  expect(readAddress("").at).toEqual([]);
  expect(readAddress("#at=%25").at).toEqual(["%"]);
});
