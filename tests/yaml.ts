// Reads the YAML of this repository: maps, lists, one-line texts, folded texts, and lists in one line.
// Refuses everything else, so that the files stay simple.

export type Yaml = string | Yaml[] | { [key: string]: Yaml };

interface Line {
  indent: number;
  text: string;
  number: number;
}

export function readYaml(text: string): Yaml {
  const anchors = new Map<string, Yaml>();
  const lines: Line[] = text.split("\n").flatMap((line, at) => {
    if (/^\s*(#.*)?$/.test(line)) return [];
    if (line.includes("\t")) throw new Error(`line ${at + 1} has a tab in it`);
    return [{ indent: line.search(/\S/), text: line.trim(), number: at + 1 }];
  });
  let at = 0;

  function block(indent: number): Yaml {
    return lines[at]?.text.startsWith("- ") ? list(indent) : map(indent);
  }

  function list(indent: number): Yaml[] {
    const found: Yaml[] = [];
    for (let line = lines[at]; line?.indent === indent && line.text.startsWith("- "); line = lines[at]) {
      const rest = line.text.slice(2);
      if (/^[\w-]+:( |$)/.test(rest)) {
        lines[at] = { ...line, indent: indent + 2, text: rest };
        found.push(map(indent + 2));
      } else {
        at++;
        found.push(scalar(rest, line));
      }
    }
    return found;
  }

  function map(indent: number): { [key: string]: Yaml } {
    const found: { [key: string]: Yaml } = {};
    for (let line = lines[at]; line?.indent === indent; line = lines[at]) {
      const [, key, rest = ""] = /^([\w-]+):(?: (.*))?$/.exec(line.text) ?? [];
      if (key === undefined || key in found) throw new Error(`line ${line.number} is no new key: ${line.text}`);
      at++;
      const [, anchor, value = ""] = /^(?:&(\S+) ?)?(.*)$/.exec(rest) ?? [];
      found[key] = valueOf(value, line);
      if (anchor !== undefined) anchors.set(anchor, found[key]);
    }
    const next = lines[at];
    if (next && next.indent > indent) throw new Error(`line ${next.number} is indented too far`);
    return found;
  }

  function valueOf(text: string, line: Line): Yaml {
    const below = lines[at];
    const isBelow = below !== undefined && below.indent > line.indent;
    if (text === "") {
      if (!isBelow) throw new Error(`line ${line.number} has no value`);
      return block(below.indent);
    }
    if (text === ">-") {
      const parts: string[] = [];
      for (let next = lines[at]; next && next.indent > line.indent; next = lines[++at]) parts.push(next.text);
      return parts.join(" ");
    }
    return scalar(text, line);
  }

  function scalar(text: string, { number }: Line): Yaml {
    if (text === "{}") return {};
    if (/^["[]/.test(text)) return JSON.parse(text) as Yaml;
    const [, alias] = /^\*(\S+)$/.exec(text) ?? [];
    if (alias !== undefined) {
      const value = anchors.get(alias);
      if (value === undefined) throw new Error(`line ${number} names ${text}, which is not there`);
      return value;
    }
    // Text that YAML would read as something other than text.
    if (/^[&*!|>%@`'{]|: | #|:$/.test(text)) throw new Error(`line ${number} is more than is read here: ${text}`);
    return text;
  }

  const whole = block(0);
  const rest = lines[at];
  if (rest) throw new Error(`line ${rest.number} does not belong anywhere: ${rest.text}`);
  return whole;
}
