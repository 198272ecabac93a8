/** The elements of demo.html. */

export function at<Kind extends HTMLElement>(id: string): Kind {
  return document.getElementById(id) as Kind;
}

/** Sets the text of an element. An equal text is not set again, so screen readers do not announce it again. */
export function say(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Calls `again` when a canvas must be drawn again, because its size or the colour scheme has changed. */
export function onLook(canvas: HTMLCanvasElement, again: () => void): void {
  new ResizeObserver(again).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
}

/** Draws a panel if it has something new. */
export type Draw = (nowMs: number) => void;
