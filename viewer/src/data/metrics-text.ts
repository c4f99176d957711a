// Parses the Prometheus text format, which a server returns at /metrics.

export interface Sample {
  name: string;
  labels: { [name: string]: string };
  value: number;
}

const wholeSample = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?$/;
const oneLabel = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** Parses every sample. Skips unknown lines, which a newer server may send. */
export function parseMetrics(text: string): Sample[] {
  return text.split("\n").flatMap((line) => {
    const [, name, labels = "", value = ""] = wholeSample.exec(line.trim()) ?? [];
    if (name === undefined) return [];
    return [{ name, labels: parseLabels(labels), value: parseNumber(value) }];
  });
}

function parseLabels(text: string): { [name: string]: string } {
  const found = [...text.matchAll(oneLabel)];
  return Object.fromEntries(found.map(([, name = "", value = ""]) => [name, unescapeLabel(value)]));
}

const unescapeLabel = (value: string): string =>
  value.replace(/\\(.)/g, (_, letter: string) => (letter === "n" ? "\n" : letter));

function parseNumber(value: string): number {
  if (/^[+-]?Inf$/.test(value)) return value.startsWith("-") ? -Infinity : Infinity;
  return Number(value);
}
