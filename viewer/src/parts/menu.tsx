// A menu of links in the header. One link needs no menu.
import { useEffect, useRef } from "preact/hooks";

export interface MenuProps {
  name: string;
  links: { name: string; href: string; isHere: boolean }[];
}

export function Menu({ name, links }: MenuProps) {
  const details = useRef<HTMLDetailsElement>(null);
  const close = (): void => {
    if (details.current) details.current.open = false;
  };
  useEffect(() => {
    const clicked = ({ target }: MouseEvent): void => {
      if (!details.current?.contains(target as Node)) close();
    };
    addEventListener("click", clicked);
    return () => removeEventListener("click", clicked);
  }, []);
  const [first, second] = links;
  if (!first) return null;
  if (!second) {
    return (
      <a href={first.href} aria-current={first.isHere ? "page" : undefined}>
        {name}
      </a>
    );
  }
  const here = links.find(({ isHere }) => isHere);
  return (
    <details class="menu" ref={details} onKeyDown={({ key }) => key === "Escape" && close()}>
      <summary aria-current={here ? "page" : undefined}>
        {name}
        {here && `: ${here.name}`}
      </summary>
      <ul>
        {links.map((link) => (
          <li key={link.href}>
            <a href={link.href} aria-current={link.isHere ? "page" : undefined} onClick={close}>
              {link.name}
            </a>
          </li>
        ))}
      </ul>
    </details>
  );
}
