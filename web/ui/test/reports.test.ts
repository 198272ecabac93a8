/** Runs of the lab, as they are listed. */

import { expect, test } from "vitest";
import { date, file, processor } from "../src/reports/runs.js";

test("what is no time is shown as it is", () => {
  expect(date("2026-11-21T10:28:04Z")).toMatch(/^21 Nov 2026/);
  expect(date("<yesterday>")).toBe("<yesterday>");
});

test("names are for people and for URLs", () => {
  expect(file("2026 a/b", "report.html")).toBe("runs/2026%20a%2Fb/report.html");
  expect(processor("Intel(R) Xeon(R) Processor @ 2.50GHz")).toBe("Intel Xeon 2.50GHz");
});
