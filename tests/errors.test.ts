// docs/errors.md agrees with the table of error codes.
import { expect, test } from "vitest";
import { errorTable } from "../src/core/errors.ts";
import { fileAt, tableIn } from "./files.ts";

test("every error code is documented with its status and meaning, in the order of the table, and no other", () => {
  const documented = tableIn(fileAt("docs/errors.md").text, "code", "status", "meaning");
  const rows = Object.entries(errorTable).map(([code, { status, meaning }]) => [`\`${code}\``, `${status}`, meaning]);
  expect(documented).toEqual(rows);
});
