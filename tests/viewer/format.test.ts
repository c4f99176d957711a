// Words and numbers as they are shown.
import { expect, test } from "vitest";
import { plain, short } from "../../viewer/src/parts/format.ts";
import { preview } from "../../viewer/src/parts/json-rows.ts";

test("what cannot be seen, or turns the order of letters around, is shown as what it is", () => {
  expect(plain("a\u202egnp.exe\u2066")).toBe("a⟨U+202E⟩gnp.exe⟨U+2066⟩");
  expect(plain("\u001b[31mred\u0000\u009b")).toBe("⟨U+001B⟩[31mred⟨U+0000⟩⟨U+009B⟩");
  expect(short("\u202eabc", 2)).toBe("⟨U+202E⟩a…");
  expect(preview({ "\u202ek": "\u2067v" })).toBe('{"⟨U+202E⟩k": "⟨U+2067⟩v"}');
});

test("lines, tabs, other scripts and signs of several parts stay as they are", () => {
  const text = "one\r\n\ttwo שלום 👩‍👩‍👧 é\u200f";
  expect(plain(text)).toBe(text);
});
