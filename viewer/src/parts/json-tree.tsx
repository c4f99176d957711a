// A JSON value of any size as a foldable tree. Only the visible rows are rendered.
import { useEffect, useId, useMemo, useState } from "preact/hooks";
import type { Json } from "../../../src/core/json.ts";
import { CopyButton } from "./copy-button.tsx";
import { count, short } from "./format.ts";
import { preview, readablePath, createJsonRows, type JsonRow } from "./json-rows.ts";
import { LongText } from "./long-text.tsx";
import { VirtualList, type Place } from "./virtual-list.tsx";
import "./json-tree.css";

export interface JsonTreeProps {
  value: Json;
  label: string;
  /** The changed paths, and the paths to unfold because they contain a change. */
  kinds?: ReadonlyMap<string, "added" | "replaced">;
  touched?: ReadonlySet<string>;
  /** A path to unfold and scroll to. Each new object unfolds and scrolls again. */
  wanted?: { path: string } | undefined;
}

const rowHeight = 22;
/** Little is unfolded initially, so that the whole value is visible at a glance. */
const [openDepth, openSize] = [2, 24];
const mostInSight = 24;

export function JsonTree({ value, label, kinds, touched, wanted }: JsonTreeProps) {
  const [folds, setFolds] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [chosen, setChosen] = useState("");
  const [isMoved, setIsMoved] = useState(false);
  const id = useId();
  const rows = useMemo(
    () =>
      createJsonRows(value, {
        isOpen: (path, depth, size) =>
          folds.get(path) ?? (depth === 0 || touched?.has(path) || (depth < openDepth && size <= openSize)),
        named: new Set([...folds.keys(), ...(touched ?? [])]),
      }),
    [value, folds, touched],
  );
  const found = rows.indexOf(chosen);
  const at = found ?? 0;
  const row = rows.at(at);

  useEffect(() => {
    if (!wanted) return;
    setFolds((known) => unfolded(known, wanted.path));
    setChosen(wanted.path);
    setIsMoved(true);
  }, [wanted]);
  // Scrolls once; afterwards the reader scrolls freely.
  useEffect(() => {
    if (isMoved && found !== undefined) setIsMoved(false);
  }, [isMoved, found]);

  const fold = ({ path }: JsonRow, isOpen: boolean): void => setFolds(new Map(folds).set(path, isOpen));
  const choose = (index: number): void => {
    setChosen(rows.at(Math.max(0, Math.min(rows.length - 1, index))).path);
    setIsMoved(true);
  };
  const keys: { [key: string]: () => void } = {
    ArrowDown: () => choose(at + 1),
    ArrowUp: () => choose(at - 1),
    PageDown: () => choose(at + 15),
    PageUp: () => choose(at - 15),
    Home: () => choose(0),
    End: () => choose(rows.length - 1),
    ArrowRight: () => (row.size && !row.isOpen ? fold(row, true) : choose(at + 1)),
    ArrowLeft: () => {
      if (row.isOpen) fold(row, false);
      else choose(rows.indexOf(row.path.slice(0, Math.max(0, row.path.lastIndexOf("/")))) ?? 0);
    },
    Enter: () => fold(row, !row.isOpen),
    " ": () => fold(row, !row.isOpen),
  };
  return (
    <div class="json">
      <div class="json-box" style={{ height: `${Math.min(rows.length, mostInSight) * rowHeight + 8}px` }}>
        <VirtualList
          count={rows.length}
          height={rowHeight}
          shown={isMoved ? found : undefined}
          attributes={{
            class: "json-list",
            role: "tree",
            tabIndex: 0,
            "aria-label": label,
            "aria-activedescendant": `${id}-${at}`,
            onKeyDown: (event) => {
              const act = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
              if (!act) return;
              event.preventDefault();
              act();
            },
          }}
        >
          {(index, place) => {
            const one = rows.at(index);
            return (
              <Row
                id={`${id}-${index}`}
                row={one}
                place={place}
                isChosen={index === found}
                mark={kinds?.get(one.path)}
                isTouched={touched?.has(one.path) ?? false}
                onChoose={() => setChosen(one.path)}
                onFold={() => fold(one, !one.isOpen)}
              />
            );
          }}
        </VirtualList>
      </div>
      {found !== undefined && <Chosen row={row} />}
    </div>
  );
}

/** Unfolds every parent of the path. */
function unfolded(folds: ReadonlyMap<string, boolean>, path: string): ReadonlyMap<string, boolean> {
  const next = new Map(folds);
  for (let at = path.lastIndexOf("/"); at >= 0; at = at === 0 ? -1 : path.lastIndexOf("/", at - 1)) {
    next.set(path.slice(0, at), true);
  }
  return next;
}

interface RowProps {
  id: string;
  row: JsonRow;
  place: Place;
  isChosen: boolean;
  mark: "added" | "replaced" | undefined;
  isTouched: boolean;
  onChoose(): void;
  onFold(): void;
}

function Row({ id, row, place: { key, ...place }, isChosen, mark, isTouched, onChoose, onFold }: RowProps) {
  const { key: name, value, depth, size, isOpen } = row;
  const sign = mark === "added" ? "+" : mark === "replaced" ? "~" : isTouched && !isOpen ? "·" : "";
  return (
    <div
      key={key}
      {...place}
      id={id}
      class={`json-row ${mark ?? ""} ${isChosen ? "chosen" : ""}`}
      role="treeitem"
      aria-level={depth + 1}
      aria-expanded={size ? isOpen : undefined}
      aria-selected={isChosen}
      onClick={() => {
        onChoose();
        if (size) onFold();
      }}
    >
      <span class="json-sign" title={mark}>
        {sign}
        {mark && <span class="unseen">{mark}: </span>}
      </span>
      <span style={{ paddingInlineStart: `${Math.min(depth, 40) * 14}px` }} class="json-fold" aria-hidden="true">
        {size ? (isOpen ? "▾" : "▸") : ""}
      </span>
      <span class="json-key">{short(name ?? "state", 200)}</span>
      <span class={`json-value ${kindOf(value)}`}>{shownValue(row)}</span>
      {size !== undefined && <span class="json-size">{sizeOf(value, size)}</span>}
    </div>
  );
}

function shownValue({ value, size, isOpen }: JsonRow): string {
  if (size === undefined) return preview(value, 300);
  return isOpen ? "" : preview(value, 100);
}

const sizeOf = (value: Json, size: number): string =>
  Array.isArray(value) ? count(size, "entry", "entries") : count(size, "key");

function kindOf(value: Json): string {
  if (value === null) return "null";
  return typeof value === "object" ? "inside" : typeof value;
}

/** Shows the path of the selected row, and its full text if it is long. */
function Chosen({ row: { path, value } }: { row: JsonRow }) {
  return (
    <div class="json-chosen">
      <code class="json-path">{path === "" ? "(root)" : short(readablePath(path), 500)}</code>
      <CopyButton what="path" text={() => path} />
      <CopyButton what="value" text={() => (typeof value === "string" ? value : JSON.stringify(value, null, 2))} />
      {typeof value === "string" && value.length > 60 && <LongText text={value} />}
    </div>
  );
}
