// A list of any length that renders only its visible entries.
import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
  type VirtualItem,
} from "@tanstack/virtual-core";
import type { ComponentChildren, HTMLAttributes } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface VirtualListProps {
  count: number;
  /** The height of an entry in pixels; an estimate if entries are measured. */
  height: number;
  /** Whether entries have different heights. */
  isMeasured?: boolean;
  /** The entry to scroll into view when it changes. */
  shown?: number | undefined;
  /** Attributes of the scrolling element. */
  attributes?: HTMLAttributes<HTMLDivElement>;
  /** Shown above the entries; scrolls sideways with them. */
  heading?: ComponentChildren;
  /** Renders an entry. `place` positions it and must be spread on its outermost element. */
  children(index: number, place: Place): ComponentChildren;
}

export interface Place {
  key: string | number | bigint;
  "data-index": number;
  style: { transform: string; position: "absolute"; top: string; left: string; right: string; height?: string };
  ref?: (element: HTMLElement | null) => void;
}

export function VirtualList(props: VirtualListProps) {
  const { count, height, isMeasured = false, shown, attributes, heading, children } = props;
  const element = useRef<HTMLDivElement>(null);
  const [, draw] = useState({});
  const [list] = useState(
    () =>
      new Virtualizer<HTMLDivElement, HTMLElement>({
        count,
        getScrollElement: () => element.current,
        estimateSize: () => height,
        overscan: 8,
        observeElementRect,
        observeElementOffset,
        scrollToFn: elementScroll,
        onChange: () => draw({}),
      }),
  );
  list.setOptions({ ...list.options, count, estimateSize: () => height });
  // The library's adapters for other frameworks call these two methods.
  const { _didMount: mounted, _willUpdate: updated } = list;
  useLayoutEffect(() => mounted(), [list]);
  useLayoutEffect(() => updated());
  useEffect(() => {
    if (shown !== undefined && shown < count) list.scrollToIndex(shown, { align: "auto" });
  }, [list, shown, count]);

  const place = ({ key, index, start, size }: VirtualItem): Place => ({
    key,
    "data-index": index,
    style: {
      transform: `translateY(${start}px)`,
      position: "absolute",
      top: "0",
      left: "0",
      right: "0",
      ...(!isMeasured && { height: `${size}px` }),
    },
    ...(isMeasured && { ref: (made) => list.measureElement(made) }),
  });
  return (
    <div {...attributes} ref={element} class={`virtual ${String(attributes?.class ?? "")}`}>
      {heading}
      <div class="virtual-inside" role="presentation" style={{ height: `${list.getTotalSize()}px` }}>
        {list.getVirtualItems().map((item) => children(item.index, place(item)))}
      </div>
    </div>
  );
}
