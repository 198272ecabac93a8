/** Colours of series and axes, from the style sheet. Reports use the same ones. */

import { useEffect, useState } from "preact/hooks";

export interface Colours {
  readonly ink: string;
  readonly axis: string;
  readonly grid: string;
  readonly series: readonly string[];
}

export function colours(element: Element): Colours {
  const style = getComputedStyle(element);
  const value = (name: string): string => style.getPropertyValue(name).trim();
  return {
    ink: value("--ink"),
    axis: value("--soft"),
    grid: value("--faint"),
    series: ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5"].map(value),
  };
}

/** Returns whether the colour scheme is dark. A component that draws on a canvas draws again when this changes. */
export function useIsDark(): boolean {
  const query = matchMedia("(prefers-color-scheme: dark)");
  const [isDark, setIsDark] = useState(query.matches);
  useEffect(() => {
    const change = (): void => setIsDark(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  return isDark;
}
