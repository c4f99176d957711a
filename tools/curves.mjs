// Draws the curves of training runs as one SVG picture: node tools/curves.mjs OUT.svg METRIC FOLDER...
// Every number comes from the logs in the folders, as `holdfast metrics --over iteration` reads them.
import { writeFileSync } from "node:fs";
import { basename } from "node:path";
import { readCurve } from "../dist/rollout/curve.js";
import { seriesIn } from "../dist/rollout/curve-series.js";

const [out, metric, ...folders] = process.argv.slice(2);
if (out === undefined || metric === undefined || folders.length === 0) {
  console.error("usage: node tools/curves.mjs OUT.svg METRIC FOLDER...");
  process.exit(2);
}
const curves = await Promise.all(folders.map((folder) => readCurve(folder, "iteration", () => undefined)));
const found = seriesIn(curves).find(({ name }) => name === metric);
if (!found) {
  console.error(`no run has the metric ${metric}`);
  process.exit(1);
}
writeFileSync(
  out,
  drawn(
    found,
    folders.map((folder) => basename(folder)),
  ),
);

/** @param {import("../src/rollout/curve-series.ts").Series} series @param {string[]} names */
function drawn({ name, first, lines }, names) {
  const [width, height, left, right, top, bottom] = [640, 260, 48, 12, 14, 26];
  const colours = ["#0b6259", "#7a4a05", "#a52a1f", "#1a6b33", "#3b4fa0", "#6d3b8e"];
  const values = lines.flat().filter((value) => value !== undefined);
  const last = first + Math.max(...lines.map((line) => line.length)) - 1;
  const [low, high] = [Math.min(0, ...values), Math.max(name.startsWith("reward") ? 1 : 0, ...values)];
  const x = (/** @type {number} */ at) => left + ((width - left - right) * (at - first)) / Math.max(1, last - first);
  const y = (/** @type {number} */ value) =>
    height - bottom - ((height - top - bottom) * (value - low)) / (high - low || 1);
  const text = (/** @type {number} */ at, /** @type {number} */ down, /** @type {string} */ said, more = "") =>
    `<text x="${at.toFixed(1)}" y="${down.toFixed(1)}" ${more}>${said.replace(/[<&]/g, "?")}</text>`;
  const rules = [low, (low + high) / 2, high].flatMap((value) => [
    `<line x1="${left}" x2="${width - right}" y1="${y(value).toFixed(1)}" y2="${y(value).toFixed(1)}" stroke="#d9dbd6"/>`,
    text(left - 6, y(value) + 4, String(Number(value.toPrecision(3))), 'text-anchor="end"'),
  ]);
  const paths = lines.map((line, run) => {
    const points = line.flatMap((value, at) =>
      value === undefined ? [] : [`${x(first + at).toFixed(1)},${y(value).toFixed(1)}`],
    );
    return `<polyline fill="none" stroke="${colours[run % colours.length]}" stroke-width="1.8" points="${points.join(" ")}"/>`;
  });
  const keys = names.map((said, run) =>
    text(
      width - right,
      height - bottom - 8 - 15 * run,
      said,
      `text-anchor="end" style="fill:${colours[run % colours.length]}"`,
    ),
  );
  const axis = [
    text(left, height - 8, String(first)),
    text(width - right, height - 8, String(last), 'text-anchor="end"'),
  ];
  const title = text(width / 2, height - 8, `${name} over iterations`, 'text-anchor="middle"');
  const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12">`;
  return `${[head, ...rules, ...paths, ...keys, ...axis, title].join("\n")}\n</svg>\n`;
}
