/** Highlights a value for a moment after it changes. */

import { useRef } from "preact/hooks";

const MARKED_MS = 900;

/** Elements that one update highlights. A single timer ends all these highlights. */
let marked: Element[] | null = null;

/** Ends a highlight after a moment, as a `ref`. Changing a class takes less time than animating a hundred cells each second. */
export function fading(element: Element | null): void {
  if (!element) return;
  if (!marked) {
    const these: Element[] = [];
    marked = these;
    queueMicrotask(() => (marked = null));
    setTimeout(() => {
      for (const one of these) one.classList.add("faded");
    }, MARKED_MS);
  }
  marked.push(element);
}

interface Props {
  readonly value: unknown;
  /** The value as text; `value` itself by default. */
  readonly text?: string;
}

export function Changing({ value, text = String(value ?? "–") }: Props) {
  const last = useRef({ value, changes: 0 });
  if (last.current.value !== value) last.current = { value, changes: last.current.changes + 1 };
  const { changes } = last.current;
  // The new key makes a new element, which starts a new highlight.
  return (
    <span key={changes} ref={changes ? fading : null} class={changes ? "changed" : undefined}>
      {text}
    </span>
  );
}
