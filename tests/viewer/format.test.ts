// Formatting of text and numbers.
import { expect, test } from "vitest";
import { number, percent, showInvisible, short } from "../../viewer/src/parts/format.ts";
import { preview } from "../../viewer/src/parts/json-rows.ts";

test("control characters and direction marks are made visible", () => {
  expect(showInvisible("a\u202egnp.exe\u2066")).toBe("a⟨U+202E⟩gnp.exe⟨U+2066⟩");
  expect(showInvisible("\u001b[31mred\u0000\u009b")).toBe("⟨U+001B⟩[31mred⟨U+0000⟩⟨U+009B⟩");
  expect(short("\u202eabc", 2)).toBe("⟨U+202E⟩a…");
  expect(preview({ "\u202ek": "\u2067v" })).toBe('{"⟨U+202E⟩k": "⟨U+2067⟩v"}');
});

test("line breaks, tabs, other scripts and combined characters stay unchanged", () => {
  const text = "one\r\n\ttwo שלום 👩‍👩‍👧 é\u200f";
  expect(showInvisible(text)).toBe(text);
});

test("numbers below zero have a minus sign, and shares are in percent", () => {
  expect([number(-0.0157), number(-1234), number(0.5)]).toEqual(["−0.0157", "−1,234", "0.5"]);
  expect([percent(6.5612), percent(100)]).toEqual(["6.561%", "100%"]);
});
