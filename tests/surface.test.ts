// The public surface: every value and verb has a comment with an example, and every type that a public signature names
// is exported.
import { posix } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";
import { fileAt, filesIn } from "./files.ts";

const parsed = new Map<string, ts.SourceFile>();

function parse(path: string): ts.SourceFile {
  const known = parsed.get(path) ?? ts.createSourceFile(path, fileAt(path).text, ts.ScriptTarget.Latest, true);
  parsed.set(path, known);
  return known;
}

interface Exported {
  name: string;
  file: string;
  isType: boolean;
}

/** The names that a file exports from others. */
function exportsOf(path: string): Exported[] {
  return parse(path).statements.flatMap((statement) => {
    if (!ts.isExportDeclaration(statement)) return [];
    const from = statement.moduleSpecifier as ts.StringLiteral | undefined;
    const target = from && posix.join(posix.dirname(path), from.text);
    if (!statement.exportClause) return target === undefined ? [] : ownExportsOf(target);
    if (!ts.isNamedExports(statement.exportClause)) return [];
    return statement.exportClause.elements.map(({ name, isTypeOnly }) => {
      const file = target ?? importsOf(path).get(name.text) ?? path;
      return { name: name.text, file, isType: isTypeOnly || statement.isTypeOnly };
    });
  });
}

const root = exportsOf("src/index.ts");
/** The main values of subpaths. Other files of a plural folder are variants of these. */
const below: Exported[] = [
  ...["src/rollout/index.ts", "src/testing/index.ts"].flatMap(exportsOf),
  { name: "serve", file: "src/server/serve.ts", isType: false },
  { name: "createTokens", file: "src/server/tokens.ts", isType: false },
  { name: "keysFromStore", file: "src/server/tokens.ts", isType: false },
  { name: "mount", file: "src/server/mount.ts", isType: false },
  { name: "createClient", file: "src/client/client.ts", isType: false },
  { name: "restProtocol", file: "src/protocols/rest.ts", isType: false },
  { name: "gymProtocol", file: "src/protocols/gym.ts", isType: false },
];

type Named = ts.FunctionDeclaration | ts.ClassDeclaration | ts.InterfaceDeclaration | ts.TypeAliasDeclaration;

/** The declarations of a name in a file: overloads are several. */
function declarationsOf(name: string, file: string): ts.Statement[] {
  return parse(file).statements.filter((statement) => {
    if (!ts.isVariableStatement(statement)) return (statement as Named).name?.text === name;
    return statement.declarationList.declarations.some((declared) => declared.name.getText() === name);
  });
}

const hasTag = (node: ts.Node, tag: string): boolean =>
  ts.getJSDocTags(node).some(({ tagName }) => tagName.text === tag);

/** Whether a comment has text and an example. */
function isExplained(node: ts.Node): boolean {
  const comments = ts.getJSDocCommentsAndTags(node).filter(ts.isJSDoc);
  return comments.some(({ comment }) => comment !== undefined) && hasTag(node, "example");
}

test("every public value has a comment with an example", () => {
  const values = [...root, ...below].filter(({ isType }) => !isType);
  const bare = values.filter(({ name, file }) => !declarationsOf(name, file).some(isExplained));
  expect(bare.map(({ name }) => name)).toEqual([]);
  expect(root.filter(({ isType }) => !isType).length).toBeLessThan(30);
});

test("every verb of sessions has a comment with an example", () => {
  const verbs = ["SessionsBase", "Episodes", "Conversations"].flatMap((name) =>
    declarationsOf(name, "src/core/sessions.ts").flatMap((declared) =>
      (declared as ts.InterfaceDeclaration).members.filter(ts.isMethodSignature),
    ),
  );
  const bare = verbs.filter((verb) => !hasTag(verb, "internal") && !isExplained(verb));
  expect(bare.map(({ name }) => name.getText())).toEqual([]);
  expect(verbs.length).toBeGreaterThan(20);
});

/** The files that a file imports names from. */
function importsOf(file: string): Map<string, string> {
  const imports = new Map<string, string>();
  for (const statement of parse(file).statements) {
    if (!ts.isImportDeclaration(statement)) continue;
    const { text } = statement.moduleSpecifier as ts.StringLiteral;
    const { namedBindings } = statement.importClause ?? {};
    if (!text.startsWith(".") || !namedBindings || !ts.isNamedImports(namedBindings)) continue;
    for (const { name } of namedBindings.elements) imports.set(name.text, posix.join(posix.dirname(file), text));
  }
  return imports;
}

/** The names of types in a signature. Bodies and internal members are left out. */
function namesIn(node: ts.Node): string[] {
  if (ts.isBlock(node) || hasTag(node, "internal")) return [];
  if (ts.isVariableDeclaration(node)) {
    const { type, initializer } = node;
    const signature =
      initializer && ts.isArrowFunction(initializer) ? [...initializer.parameters, initializer.type] : [];
    return [type, ...signature].flatMap((part) => (part ? namesIn(part) : []));
  }
  const found: string[] = [];
  if (ts.isTypeReferenceNode(node)) found.push(node.typeName.getText());
  if (ts.isExpressionWithTypeArguments(node)) found.push(node.expression.getText());
  ts.forEachChild(node, (child) => void found.push(...namesIn(child)));
  return found;
}

/** The names that a module declares itself and exports. */
function ownExportsOf(file: string): Exported[] {
  return parse(file).statements.flatMap((statement) => {
    const { modifiers = [], name } = statement as Named & { modifiers?: readonly ts.ModifierLike[] };
    const isExported = modifiers.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword);
    if (!isExported || hasTag(statement, "internal")) return [];
    const names = ts.isVariableStatement(statement)
      ? statement.declarationList.declarations.map((declared) => declared.name.getText())
      : [name?.text ?? ""];
    return names.map((name) => ({ name, file, isType: false }));
  });
}

/** The modules that users import: the root, and those of the other import paths. */
const modules = [
  ...["index", "rollout/index", "server/serve", "client/client", "testing/index"].map((name) => `src/${name}.ts`),
  ...filesIn("src", ".ts").flatMap(({ path }) =>
    /^src\/(?:stores|models|protocols)\/[^/]+\.ts$/.test(path) ? [path] : [],
  ),
];

/** The types that public signatures name, with the file each is declared in. Follows types private to a file. */
function namedTypes(exported: Exported[]): Map<string, string> {
  const named = new Map<string, string>();
  const seen = new Set<string>();
  const visit = (name: string, file: string): void => {
    if (seen.has(`${file} ${name}`)) return;
    seen.add(`${file} ${name}`);
    const imports = importsOf(file);
    for (const used of declarationsOf(name, file).flatMap(namesIn)) {
      const from = imports.get(used) ?? file;
      const [declared] = declarationsOf(used, from);
      if (!declared) continue;
      const { modifiers = [] } = declared as Named;
      if (modifiers.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)) named.set(`${used} of ${from}`, from);
      visit(used, from);
    }
  };
  for (const { name, file } of exported) visit(name, file);
  return named;
}

test("every type that a public signature names is exported", () => {
  const exported = modules.flatMap((module) => [...exportsOf(module), ...ownExportsOf(module)]);
  const known = new Set(exported.map(({ name, file }) => `${name} of ${file}`));
  expect([...namedTypes(exported).keys()].filter((each) => !known.has(each))).toEqual([]);
  // A program that imports only the root needs no other path for the types of its values.
  const atRoot = new Set(root.map(({ name, file }) => `${name} of ${file}`));
  expect([...namedTypes(root).keys()].filter((each) => !atRoot.has(each))).toEqual([]);
});
