/** Styles of one page do not affect another: all pages share one document and one bundle of styles. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const PAGES = ["demo", "lab", "live", "matches", "overview", "report", "reports"];

/** Returns the selectors of top-level rules. */
function outermost(css: string): string[] {
  const selectors: string[] = [];
  let depth = 0;
  let begun = 0;
  const text = css.replace(/\/\*[\s\S]*?\*\//g, "");
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "{" && depth++ === 0) selectors.push(text.slice(begun, at).trim());
    if (text[at] === "}" && --depth === 0) begun = at + 1;
  }
  return selectors;
}

test.each(PAGES)("every rule of the page %s is inside of its own class", (page) => {
  const css = readFileSync(join(import.meta.dirname, `../src/${page}/${page}.css`), "utf8");
  const selectors = outermost(css);
  expect(selectors).toContain(`.${page}`);
  // Names of animations are global: they begin with the page's name.
  const isOwn = (selector: string): boolean => selector === `.${page}` || selector.startsWith(`@keyframes ${page}-`);
  expect(selectors.filter((selector) => !isOwn(selector))).toEqual([]);
});
