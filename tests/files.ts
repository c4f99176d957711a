// Reads the repository's own files, for tests of the repository.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** A file of the repository; its path is from the root, with slashes. */
export interface SourceFile {
  path: string;
  text: string;
}

export const root = fileURLToPath(new URL("..", import.meta.url));

/** The files below a folder whose names have one of the endings; for the root, only its own files. */
export function filesIn(folder: string, ...endings: string[]): SourceFile[] {
  if (!existsSync(join(root, folder))) return [];
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = folder === "." ? entry.name : `${folder}/${entry.name}`;
    if (entry.isDirectory()) return folder === "." || entry.name === "node_modules" ? [] : filesIn(path, ...endings);
    return endings.some((ending) => entry.name.endsWith(ending)) ? [fileAt(path)] : [];
  });
}

export function fileAt(path: string): SourceFile {
  return { path, text: readFileSync(join(root, path), "utf8") };
}

/** The rows of the first table whose heading starts with these columns. */
export function tableIn(text: string, ...columns: string[]): string[][] {
  const lines = text.split("\n");
  const start = lines.findIndex((line) => columns.every((column, at) => cellsOf(line)[at] === column));
  if (start < 0) throw new Error(`there is no table with the columns ${columns.join(" | ")}`);
  const end = lines.findIndex((line, at) => at > start && !line.startsWith("|"));
  return lines.slice(start + 2, end < 0 ? undefined : end).map(cellsOf);
}

function cellsOf(line: string): string[] {
  const cells = line.startsWith("|") ? line.split("|").slice(1, -1) : [];
  return cells.map((cell) => cell.trim());
}
