/** Formats of numbers, the same on all pages. Pure. */

/** Returns three significant digits with a unit: `12.3 k`, `4.56 M`. */
export function brief(value: number): string {
  if (Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  // Three digits may round up to the next unit, for example 999.6 k to 1 M.
  if (size >= 999.5e9) return value.toExponential(2);
  if (size >= 999.5e6) return `${digits(value / 1e9)} G`;
  if (size >= 999.5e3) return `${digits(value / 1e6)} M`;
  if (size >= 1e4) return `${digits(value / 1e3)} k`;
  return size >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : digits(value);
}

/** Largest number of decimal places. Beyond it the notation is exponential. */
const BEHIND_MAX = 9;

/** Returns the label of a tick on an axis whose ticks are `step` apart, with enough digits to tell two ticks apart. */
export function scale(value: number, step: number): string {
  const behind = -Math.floor(Math.log10(step) + 1e-9);
  if (value !== 0 && (behind > BEHIND_MAX || Math.abs(value) >= 1e12)) return value.toExponential(3);
  const [unit, name] = Math.abs(value) < 1e6 ? [1, ""] : Math.abs(value) < 1e9 ? [1e6, " M"] : [1e9, " G"];
  const digits = Math.min(Math.max(0, behind + Math.log10(unit)), BEHIND_MAX);
  const written = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return `${(value / unit).toLocaleString("en", written)}${name}`;
}

/** Returns a count with its noun: `1 row`, `1,234 rows`. */
export function counted(count: number, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** Returns a number of bytes with its unit: `12.3 kB`. */
export function bytes(value: number): string {
  return `${brief(value)}B`.replace(/(\d)B$/, "$1 B");
}

/** Returns a duration with its unit: `250 ms`, `3.2 s`, `4 min`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${digits(ms / 1000)} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  // From 1,000 hours on, three digits would be an exponential.
  return ms < 172_800_000 ? `${digits(ms / 3_600_000)} h` : `${brief(ms / 86_400_000)} d`;
}

function digits(value: number): string {
  return value.toPrecision(3).replace(/\.?0+$/, (zeros) => (zeros.startsWith(".") ? "" : zeros));
}
