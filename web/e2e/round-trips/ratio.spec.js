/** The interval of a ratio, with quantiles of Student's t from tables. */

import { expect, test } from "@playwright/test";
import { ratio } from "./ratio.js";

/** @param {number} pairs - half of them e^-1, half e. @param {number} quantile - at `pairs - 1` degrees of freedom. */
function check(pairs, quantile, digits = 9) {
  const ratios = Array.from({ length: pairs }, (_, index) => Math.exp(index % 2 ? 1 : -1));
  const [middle, low, high] = ratio(ratios);
  expect(middle).toBeCloseTo(1, 9);
  // The standard deviation of the logarithms is √(n ÷ (n − 1)).
  const reach = quantile / Math.sqrt(pairs - 1);
  expect(Math.log(low)).toBeCloseTo(-reach, digits);
  expect(Math.log(high)).toBeCloseTo(reach, digits);
}

test("n pairs use the quantile of n − 1 degrees of freedom", () => {
  check(2, 12.706);
  check(10, 2.262);
  check(16, 2.131);
});

test("with more pairs than the table has, the quantile comes from a series", () => {
  // These quantiles are from the same handbook, rounded to three digits.
  check(18, 2.11, 3);
  check(20, 2.093, 3);
  check(30, 2.045, 3);
  check(102, 1.984, 3);
});

test("a single pair has no interval", () => {
  const [middle, low, high] = ratio([2]);
  expect(middle).toBeCloseTo(2, 9);
  expect([low, high]).toEqual([Number.NaN, Number.NaN]);
});
