// Shows Markdown as elements that this file makes. No HTML of the text reaches the page, and nothing is loaded.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { showInvisible } from "./format.ts";
import { parseMarkdown, type Block, type Inline } from "./markdown.ts";
import "./markdown.css";

export function Markdown({ text }: { text: string }) {
  const blocks = useMemo(() => parseMarkdown(text), [text]);
  return <div class="markdown">{blocks.map(showBlock)}</div>;
}

function showBlock(block: Block, key: number): ComponentChildren {
  switch (block.type) {
    case "paragraph":
      return <p key={key}>{block.children.map(showInline)}</p>;
    case "heading":
      // Not a heading of the page: the text must not change the page's outline.
      return (
        <p key={key} class={`markdown-heading markdown-h${Math.min(block.level, 4)}`}>
          {block.children.map(showInline)}
        </p>
      );
    case "code":
      return <pre key={key}>{showInvisible(block.text)}</pre>;
    case "quote":
      return <blockquote key={key}>{block.children.map(showBlock)}</blockquote>;
    case "list": {
      const items = block.items.map((item, at) => <li key={at}>{item.map(showBlock)}</li>);
      return block.start === undefined ? (
        <ul key={key}>{items}</ul>
      ) : (
        <ol key={key} start={block.start}>
          {items}
        </ol>
      );
    }
    case "table":
      return (
        <table key={key}>
          <thead>
            <tr>
              {block.head.map((cell, at) => (
                <th key={at}>{cell.map(showInline)}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {block.rows.map((row, at) => (
              <tr key={at}>
                {row.map((cell, column) => (
                  <td key={column}>{cell.map(showInline)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      );
    case "rule":
      return <hr key={key} />;
  }
}

function showInline(inline: Inline, key: number): ComponentChildren {
  if (typeof inline === "string") return showInvisible(inline);
  switch (inline.type) {
    case "code":
      return <code key={key}>{showInvisible(inline.text)}</code>;
    case "strong":
      return <strong key={key}>{inline.children.map(showInline)}</strong>;
    case "em":
      return <em key={key}>{inline.children.map(showInline)}</em>;
    case "del":
      return <del key={key}>{inline.children.map(showInline)}</del>;
    case "link":
      return <Link key={key} href={inline.href} children={inline.children} />;
  }
}

/** Shows where a link leads, because its text may claim something else. */
function Link({ href, children }: { href: string; children: Inline[] }) {
  const isBare = children.length === 1 && children[0] === href;
  return (
    <>
      <a href={href} target="_blank" rel="noopener noreferrer nofollow" title={href}>
        {children.map(showInline)}
      </a>
      {!isBare && <span class="dim"> ({showInvisible(hostOf(href))})</span>}
    </>
  );
}

function hostOf(href: string): string {
  try {
    return new URL(href).host;
  } catch {
    return href;
  }
}
