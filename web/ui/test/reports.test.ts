/** The list of the lab's runs. */

import { expect, test } from "vitest";
import { date, file, processor } from "../src/reports/runs.js";

test("a text that is not a date is shown unchanged", () => {
  expect(date("2026-11-21T10:28:04Z")).toMatch(/^21 Nov 2026/);
  expect(date("<yesterday>")).toBe("<yesterday>");
});

test("names for people and for URLs", () => {
  expect(file("2026 a/b", "report.html")).toBe("runs/2026%20a%2Fb/report.html");
  expect(processor("Intel(R) Xeon(R) Processor @ 2.50GHz")).toBe("Intel Xeon 2.50GHz");
});
