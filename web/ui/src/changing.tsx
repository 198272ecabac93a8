/** What has just changed is marked for a moment. */

import { useRef } from "preact/hooks";

/** So long, ms. */
const MARKED_MS = 900;

/** Those that are marked at one moment are no more at one moment. */
let marked: Element[] | null = null;

/**
 * Ends the mark of an element of the class `changed` in a while: a `ref`. A style that is taken away
 * costs a browser less than an animation of a hundred cells each second.
 */
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
  /** As it is written; the value itself if left out. */
  readonly text?: string;
}

/** A figure or a word that is marked when it has become another. */
export function Changing({ value, text = String(value ?? "–") }: Props) {
  const last = useRef({ value, changes: 0 });
  if (last.current.value !== value) last.current = { value, changes: last.current.changes + 1 };
  const { changes } = last.current;
  // Another element each time: its mark begins anew.
  return (
    <span key={changes} ref={changes ? fading : null} class={changes ? "changed" : undefined}>
      {text}
    </span>
  );
}
