/** Colours of series and axes, from the style sheet: the same as in reports. */

import { useEffect, useState } from "preact/hooks";

export interface Colours {
  readonly ink: string;
  readonly axis: string;
  readonly grid: string;
  readonly series: readonly string[];
}

export function colours(element: Element): Colours {
  const style = getComputedStyle(element);
  const of = (name: string): string => style.getPropertyValue(name).trim();
  return {
    ink: of("--ink"),
    axis: of("--soft"),
    grid: of("--faint"),
    series: ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5"].map(of),
  };
}

/** Whether it is dark; a component that draws by itself draws anew when that changes. */
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
