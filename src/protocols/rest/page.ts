// The page at /docs: lists the operations of /openapi.json and lets people try them. It loads nothing from other hosts.
import { createHash } from "node:crypto";

const style = `
:root {
  color-scheme: light dark;
  --page: light-dark(#f7f7f5, #131614); --card: light-dark(#ffffff, #1b1f1d); --soft: light-dark(#eeefec, #252a27);
  --line: light-dark(#d9dbd6, #343a36); --text: light-dark(#1c211e, #e7eae7); --dim: light-dark(#5a625d, #a3aca6);
  --accent: light-dark(#0b6259, #5fd0c2); --get: light-dark(#0b6259, #5fd0c2); --post: light-dark(#7a4a05, #e6b566);
  --delete: light-dark(#a52a1f, #ff9c8f);
}
:root[data-theme="light"] { color-scheme: light; }
:root[data-theme="dark"] { color-scheme: dark; }
* { box-sizing: border-box; }
a { color: var(--accent); }
body { font: 15px/1.5 system-ui, sans-serif; background: var(--page); color: var(--text); max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { margin: 0; font-size: 1.6rem; }
h2 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
p { margin: .4rem 0; }
code, pre, input, textarea, select { font: 13px/1.5 ui-monospace, Menlo, Consolas, monospace; }
.dim { color: var(--dim); }
.bar { display: flex; flex-wrap: wrap; gap: .4rem 1rem; position: sticky; top: 0; padding: .7rem 0; background: var(--page); z-index: 1; }
.bar label { flex: 1 1 16rem; }
label { display: block; color: var(--dim); font-size: 13px; }
input, textarea, select { width: 100%; padding: .35rem .5rem; border: 1px solid var(--line); border-radius: 6px; background: var(--card); color: inherit; }
input[type=checkbox] { width: auto; }
textarea { min-height: 8rem; resize: vertical; }
details { background: var(--card); border: 1px solid var(--line); border-radius: 10px; margin: .4rem 0; }
summary { display: flex; flex-wrap: wrap; gap: 0 .8rem; align-items: baseline; padding: .5rem .8rem; cursor: pointer; }
summary b { width: 4.2rem; } summary span { color: var(--dim); }
.get { color: var(--get); } .post { color: var(--post); } .delete { color: var(--delete); }
form { padding: 0 .8rem .8rem; display: grid; gap: .5rem; }
.fields { display: grid; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); gap: .5rem; }
button { font: inherit; color: inherit; background: var(--card); padding: .3rem 1rem; border: 1px solid var(--line); border-radius: 6px; cursor: pointer; }
pre { margin: 0; padding: .6rem; background: var(--soft); border-radius: 4px; overflow: auto; max-height: 24rem; white-space: pre-wrap; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
td { border-top: 1px solid var(--line); padding: .25rem .5rem .25rem 0; vertical-align: top; white-space: pre-line; }
td:first-child { width: 6rem; }
`;

// Descriptions are written by environment authors, so they are inserted as text, never as HTML.
const script = `
// The viewer remembers the theme under this name.
try {
  const theme = localStorage.getItem("holdfast theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {}
const make = (tag, attributes = {}, ...children) => {
  const node = Object.assign(document.createElement(tag), attributes);
  node.append(...children);
  return node;
};
// Text between backticks is code.
const prose = (text) => text.replaceAll("\\n\\n", "\\n").split("\`").map((part, at) => (at % 2 ? make("code", { textContent: part }) : part));
const pretty = (value) => JSON.stringify(value, null, 2);
const session = document.getElementById("session");
const token = document.getElementById("token");
const main = document.querySelector("main");

function makeField({ name, in: where, description, required, content, schema = content["application/json"].schema }) {
  const hint = [schema.type, schema.default !== undefined && "default " + schema.default].filter(Boolean).join(", ");
  const input = make("input", { placeholder: hint, title: description });
  input.dataset.name = name;
  input.dataset.where = where;
  return make("label", { title: description }, name + (required ? " *" : ""), input);
}

function makeRequest(path, method, form, body, live) {
  const query = new URLSearchParams();
  const headers = {};
  for (const { value, dataset } of form.querySelectorAll("input[data-name]")) {
    if (value === "") continue;
    if (dataset.where === "query") query.set(dataset.name, value);
    else headers[dataset.name] = value;
  }
  if (token.value) headers.authorization = "Bearer " + token.value;
  if (body) headers["content-type"] = "application/json";
  if (live) headers.accept = "text/event-stream";
  // Relative, as the server may be under a prefix.
  const filled = path.slice(1).replace("{id}", encodeURIComponent(session.value));
  const url = filled + (query.size > 0 ? "?" + query : "");
  return [url, { method: method.toUpperCase(), headers, body: body ? body.value : undefined }];
}

async function send(form, out, button, [url, options]) {
  const stop = new AbortController();
  button.textContent = "Stop";
  button.onclick = (event) => { event.preventDefault(); stop.abort(); };
  const began = performance.now();
  out.hidden = false;
  out.textContent = options.method + " " + url + "\\n";
  try {
    const response = await fetch(url, { ...options, signal: stop.signal });
    out.textContent += response.status + " " + response.statusText + ", " + Math.round(performance.now() - began) + " ms\\n\\n";
    const type = response.headers.get("content-type") ?? "";
    if (type.includes("event-stream")) {
      const decoder = new TextDecoder();
      for (let reader = response.body.getReader(), part; !(part = await reader.read()).done; ) {
        out.textContent += decoder.decode(part.value, { stream: true });
        out.scrollTop = out.scrollHeight;
      }
      out.textContent += "(the stream has ended)";
    } else if (type.includes("json")) {
      const reply = await response.json();
      out.textContent += pretty(reply);
      if (response.status === 201 && reply.session) session.value = reply.session;
    } else out.textContent += await response.text();
  } catch (error) {
    out.textContent += stop.signal.aborted ? "(stopped)" : String(error);
  }
  button.textContent = "Send";
  button.onclick = null;
}

function makeOperation(path, method, operation, tools) {
  const { summary, description = "", parameters = [], requestBody, responses, operationId } = operation;
  const form = make("form");
  if (description) form.append(make("p", {}, ...prose(description)));
  const fields = parameters.filter(({ in: where }) => where !== "path").map(makeField);
  if (fields.length > 0) form.append(make("div", { className: "fields" }, ...fields));
  let body;
  if (requestBody) {
    const { schema, example } = requestBody.content["application/json"];
    const rows = Object.entries(schema.properties).map(([name, { description }]) =>
      make("tr", {}, make("td", {}, make("code", { textContent: name + (schema.required.includes(name) ? " *" : "") })),
        make("td", {}, ...prose(description))));
    if (rows.length > 0) form.append(make("table", {}, ...rows));
    body = make("textarea", { value: pretty(example), spellcheck: false });
    if (operationId === "callTool") {
      const choice = make("select", {}, ...Object.keys(tools).map((name) => make("option", { textContent: name })));
      choice.onchange = () => (body.value = pretty({ tool: choice.value, input: tools[choice.value].example }));
      form.append(make("label", {}, "example for the tool", choice));
    }
    form.append(make("label", {}, "body", body));
  }
  const live = responses[200]?.content?.["text/event-stream"] && make("input", { type: "checkbox" });
  if (live) form.append(make("label", {}, live, " live, as server-sent events"));
  const out = make("pre", { hidden: true });
  const button = make("button", { textContent: "Send" });
  const replies = Object.entries(responses).map(([status, { description }]) =>
    make("tr", {}, make("td", {}, make("code", { textContent: status })), make("td", {}, ...prose(description))));
  form.append(make("div", {}, button), out, make("table", {}, ...replies));
  form.onsubmit = (event) => {
    event.preventDefault();
    if (path.includes("{id}") && !session.value) return session.focus();
    void send(form, out, button, makeRequest(path, method, form, body, live?.checked));
  };
  return make("details", { id: operationId }, make("summary", {}, make("b", { className: method, textContent: method.toUpperCase() }),
    make("code", { textContent: path }), make("span", { textContent: summary })), form);
}

function makeTool([name, { description, input }]) {
  return make("details", {}, make("summary", {}, make("code", { textContent: name }), make("span", { textContent: description })),
    make("form", {}, make("pre", { textContent: pretty(input) })));
}

try {
  const response = await fetch("openapi.json");
  if (!response.ok) throw new Error("openapi.json: " + response.status);
  const { info, paths, "x-tools": tools } = await response.json();
  document.title = info.title + ": API";
  document.querySelector("h1").textContent = info.title;
  // The viewer is at the root of the server; this page may be under the prefix of an environment.
  const base = location.pathname.replace(/\\/docs$/, "");
  for (const at of [base, base.replace(/\\/[^/]*$/, "")]) {
    const found = await fetch(at + "/view/", { method: "GET" }).then(({ ok }) => ok, () => false);
    if (!found) continue;
    const link = document.getElementById("view");
    link.href = at + "/view/";
    link.parentElement.hidden = false;
    break;
  }
  document.getElementById("about").textContent = info.description;
  main.append(make("h2", { textContent: "Operations" }));
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) main.append(makeOperation(path, method, operation, tools));
  }
  main.append(make("h2", { textContent: "Tools" }), ...Object.entries(tools).map(makeTool));
  if (location.hash) document.getElementById(location.hash.slice(1))?.setAttribute("open", "");
} catch (error) {
  main.append(make("p", { textContent: "The description of the API cannot be read: " + error.message }));
}
`;

export const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>API</title>
<style>${style}</style>
<p hidden><a id="view">← Viewer</a></p>
<h1>API</h1>
<p id="about" class="dim"></p>
<p class="dim">Described by <a href="openapi.json">openapi.json</a>. Open a session first: its id appears below.</p>
<div class="bar">
<label>session<input id="session" spellcheck="false" autocomplete="off"></label>
<label>token, if the server requires one<input id="token" type="password" autocomplete="off"></label>
</div>
<main></main>
<script type="module">${script}</script>
</html>
`;

const toHash = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** The page may run only its own script and reach only this server. */
export const pageHeaders = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy":
    `default-src 'none'; script-src ${toHash(script)}; style-src ${toHash(style)}; connect-src 'self'; ` +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
};
