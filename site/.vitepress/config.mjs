// The configuration of the documentation site.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { readGuide } from "./guide.mjs";

const source = fileURLToPath(new URL("../source", import.meta.url));
const repository = "https://github.com/holdfast-dev/holdfast";

/** The modules of the API reference: `holdfast` first, then its subpaths. */
function api() {
  const modules = readdirSync(`${source}/api`, { recursive: true })
    .map((file) => String(file).replaceAll("\\", "/"))
    .filter((file) => file.endsWith("/index.md"))
    .map((file) => file.slice(0, -"/index.md".length));
  const items = modules.toSorted().map((name) => ({ text: name, link: `/api/${name}/` }));
  return { text: "API reference", collapsed: true, items };
}

export default {
  title: "Holdfast",
  description: "Stateful environments and agents for language models.",
  srcDir: source,
  outDir: fileURLToPath(new URL("../dist", import.meta.url)),
  // The site has no icon; without this line browsers ask for one.
  head: [["link", { rel: "icon", href: "data:," }]],
  rewrites: { "README.md": "index.md" },
  themeConfig: {
    nav: [
      { text: "Start", link: "/start" },
      { text: "Cookbook", link: "/cookbook" },
      { text: "API", link: "/api/" },
    ],
    sidebar: [
      ...readGuide(readFileSync(`${source}/README.md`, "utf8")),
      api(),
      { text: "Decisions", link: "/decisions/" },
    ],
    outline: [2, 3],
    search: {
      provider: "local",
      // The pages of the guide come before those of the API reference.
      options: { miniSearch: { searchOptions: { boostDocument: (id) => (id.startsWith("/api/") ? 0.2 : 1) } } },
    },
    socialLinks: [{ icon: "github", link: repository }],
  },
};
