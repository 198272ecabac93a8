/** A figure or a word that is marked for a moment when it has become another. */

import { useRef } from "preact/hooks";

interface Props {
  readonly value: unknown;
  /** As it is written; the value itself if left out. */
  readonly text?: string;
}

export function Changing({ value, text = String(value ?? "–") }: Props) {
  const last = useRef({ value, changes: 0 });
  if (last.current.value !== value) last.current = { value, changes: last.current.changes + 1 };
  const { changes } = last.current;
  // Another element each time: its animation begins anew.
  return (
    <span key={changes} class={changes ? "changed" : undefined}>
      {text}
    </span>
  );
}
