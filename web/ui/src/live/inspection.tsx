/** One event in full. The table shows only the beginning of each value. */

import { useEffect, useRef } from "preact/hooks";
import { json } from "./columns.js";
import type { Row } from "./rows.js";

const TEXT_MAX = 100_000;

interface Props {
  readonly row: Row;
  close(): void;
}

export function Inspection({ row: { offset, event }, close }: Props) {
  const place = useRef<HTMLElement>(null);
  // The section is below the table, and may be below the visible area.
  useEffect(() => place.current?.scrollIntoView({ block: "nearest" }), [offset]);
  const text = json(event, 2);
  return (
    <section class="inspection" ref={place} aria-label={`Event ${offset}`}>
      <div>
        <h2>Event {offset}</h2>
        <button type="button" onClick={close}>
          Close
        </button>
      </div>
      <pre tabIndex={0}>{text.slice(0, TEXT_MAX)}</pre>
      {text.length > TEXT_MAX && (
        <p class="note">
          The first {TEXT_MAX.toLocaleString("en")} of {text.length.toLocaleString("en")} characters.
        </p>
      )}
    </section>
  );
}
