/** The visible part of the rows. A visible row keeps its place while older rows are dropped. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Column, cell, preview } from "./columns.js";
import type { Row, Rows } from "./rows.js";
import type { Sorting } from "./view.js";

interface Props {
  readonly rows: Rows;
  readonly columns: readonly Column[];
  readonly sorting: Sorting | null;
  /** Whether each row has a key, which the table shows in place of the offset. */
  readonly hasKeys: boolean;
  /** Whether the table stays at the newest row. */
  readonly follows: boolean;
  onSort(sorting: Sorting | null): void;
  /** Called when the reader scrolls away from the newest row, or back to it. */
  onFollow(follows: boolean): void;
  /** Offset of the inspected row. */
  readonly opened: number | null;
  /** Inspects a row; `null` while rows move. */
  readonly onOpen: ((row: Row) => void) | null;
}

/** Heights from the style sheet. */
const ROW_PX = 26;
const HEAD_PX = 32;
/** Time that scrolling to the end takes, ms. New rows arrive in the meantime. */
const REACH_MS = 600;
/** Limits of a column's width, characters. Longer texts are cut. */
const WIDTH_MAX = 44;
const WIDTH_MIN = 5;

export function Table({ rows, columns, sorting, hasKeys, follows, onSort, onFollow, opened, onOpen }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const widths = useRef(new Map<string, number>());
  const [heightPx, setHeight] = useState(400);
  /** Number of the row at the top, counted from the first row ever received. */
  const anchor = useRef(0);
  const order = useRef(sorting);
  const [, draw] = useState(0);

  const fitting = Math.max(1, Math.floor((heightPx - HEAD_PX) / ROW_PX));
  const last = Math.max(0, rows.length - fitting);
  const state = useRef({ follows, start: rows.start, setPx: 0, ends: [] as { atMs: number; last: number }[] });
  // A new sort order starts at the top. Without a sort order, the table starts at the newest row.
  if (order.current !== sorting) anchor.current = sorting ? 0 : Infinity;
  order.current = sorting;
  const first = follows ? last : Math.min(Math.max(0, anchor.current - rows.start), last);
  // When the table stops following, the top row stays.
  if (follows || anchor.current === Infinity) anchor.current = rows.start + first;
  Object.assign(state.current, { follows, start: rows.start });
  const { ends } = state.current;
  ends.push({ atMs: performance.now(), last });
  while (ends.length > 1 && (ends[0]?.atMs ?? 0) < performance.now() - REACH_MS) ends.shift();

  useEffect(() => {
    const element = box.current as HTMLDivElement;
    const resize = new ResizeObserver(() => setHeight(element.clientHeight));
    resize.observe(element);
    return () => resize.disconnect();
  }, []);

  useLayoutEffect(() => {
    const element = box.current as HTMLDivElement;
    const wantedPx = first * ROW_PX;
    if (Math.abs(element.scrollTop - wantedPx) > ROW_PX / 2) element.scrollTop = wantedPx;
    state.current.setPx = element.scrollTop;
  });

  const scroll = (): void => {
    // The browser reports scrolling one frame later, when the table may be gone.
    if (!box.current) return;
    const { scrollTop } = box.current;
    const { setPx, start, follows, ends } = state.current;
    // This scroll event comes from the layout effect above, not from the reader.
    if (Math.abs(scrollTop - setPx) < 1) return;
    const at = Math.round(scrollTop / ROW_PX);
    anchor.current = start + at;
    draw((times) => times + 1);
    // The end moves while the reader scrolls to it, so the recent ends count too.
    const isAtEnd = at >= Math.min(...ends.map(({ last }) => last)) && scrollTop > setPx;
    if (isAtEnd !== follows) onFollow(isAtEnd);
  };

  const visible = Array.from({ length: Math.min(fitting, rows.length - first) }, (_, index) => {
    const row = rows.at(first + index);
    return { row, cells: columns.map((column) => preview(row && cell(row.event, column))) };
  });
  const turn = ({ name }: Column): void => {
    if (sorting?.by !== name) onSort({ by: name, isDescending: true });
    else onSort(sorting.isDescending ? { by: name, isDescending: false } : null);
  };

  return (
    <div class="rows" ref={box} onScroll={scroll} tabIndex={0} role="region" aria-label="Events">
      <div class="space" style={{ height: `${last ? last * ROW_PX + heightPx : HEAD_PX + rows.length * ROW_PX}px` }}>
        <table aria-rowcount={rows.length + 1}>
          <thead>
            <tr aria-rowindex={1}>
              <th scope="col">{hasKeys ? "key" : "offset"}</th>
              {columns.map((column, index) => (
                <th
                  key={column.name}
                  scope="col"
                  class={column.kind}
                  aria-sort={
                    sorting?.by === column.name ? (sorting.isDescending ? "descending" : "ascending") : undefined
                  }
                  style={{ minWidth: `${widthOf(widths.current, column, visible, index)}ch` }}
                >
                  <button type="button" title={`Sort by this column (${column.kind})`} onClick={() => turn(column)}>
                    {column.name}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {visible.map(({ row, cells }, at) => (
              <tr key={at} aria-rowindex={first + at + 2} class={row?.offset === opened ? "opened" : undefined}>
                <th scope="row">
                  {row && onOpen ? (
                    <button type="button" aria-pressed={row.offset === opened} onClick={() => onOpen(row)}>
                      {row.key ?? row.offset}
                    </button>
                  ) : (
                    (row?.key ?? row?.offset)
                  )}
                </th>
                {cells.map((text, column) => (
                  <td key={column} class={columns[column]?.kind}>
                    {text}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

/** Returns the width of a column, characters. The width grows with the visible values and never shrinks. */
function widthOf(
  widths: Map<string, number>,
  { name }: Column,
  visible: readonly { cells: readonly string[] }[],
  index: number,
): number {
  let width = widths.get(name) ?? Math.max(WIDTH_MIN, name.length + 2);
  for (const { cells } of visible) width = Math.max(width, cells[index]?.length ?? 0);
  width = Math.min(width, WIDTH_MAX);
  widths.set(name, width);
  return width;
}
