// The sidebar of the site follows the tables of docs/README.md. The tests read it too.

/** Returns the groups and pages of docs/README.md, in reading order. */
export function readGuide(text) {
  const groups = [];
  for (const line of text.split("\n")) {
    const [, heading] = /^## (.*)/.exec(line) ?? [];
    if (heading) groups.push({ text: heading, items: [] });
    const [, title, page] = /^\| \[([^\]]+)\]\(([^)]+)\.md\)/.exec(line) ?? [];
    if (page) groups.at(-1).items.push({ text: title, link: `/${page}` });
  }
  return groups;
}
