/** What processes use, as the kernel has it. */

import { readFileSync } from "node:fs";
import type { Browser } from "@playwright/test";

/** Of the kernel's accounts (proc(5), `USER_HZ`). */
const TICKS_PER_S = 100;

export interface Memory {
  /** Resident, and its share of what it has in common with others, bytes. */
  readonly rss: number;
  readonly pss: number;
}

export function memory(pid: number): Memory {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  const bytes = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(text)?.[1]) * 1024;
  return { rss: bytes("Rss"), pss: bytes("Pss") };
}

/** All of the browser's processes. */
async function processes(browser: Browser): Promise<{ type: string; id: number }[]> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  await session.detach();
  return processInfo;
}

/** CPU time of a process since it began, s. */
function cpuSeconds(pid: number): number {
  const [, fields = ""] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ");
  const [user, system] = fields.split(" ").slice(11, 13).map(Number);
  return ((user ?? 0) + (system ?? 0)) / TICKS_PER_S;
}

/** The process that a page runs in: of all renderers the one that has done most. */
export async function renderer(browser: Browser): Promise<number> {
  const renderers = (await processes(browser)).filter(({ type }) => type === "renderer");
  const done = renderers.map(({ id }) => ({ id, s: cpuSeconds(id) }));
  const [busiest] = done.sort((one, other) => other.s - one.s);
  if (!busiest) throw new Error("no renderer");
  return busiest.id;
}

/** Proportional memory of all of the browser's processes: what a page is behind with need not be in its own. */
export async function whole(browser: Browser): Promise<() => number> {
  const all = await processes(browser);
  return () => all.reduce((sum, { id }) => sum + memory(id).pss, 0);
}

/** Ticks in which each core was busy, and stolen from, and all; since the machine began. */
export function cores(): { busy: number; stolen: number; all: number }[] {
  return readFileSync("/proc/stat", "utf8")
    .split("\n")
    .filter((line) => /^cpu\d/.test(line))
    .map((line) => {
      const ticks = line.split(/\s+/).slice(1, 9).map(Number);
      const all = ticks.reduce((sum, it) => sum + it, 0);
      const idle = (ticks[3] ?? 0) + (ticks[4] ?? 0);
      return { busy: all - idle - (ticks[7] ?? 0), stolen: ticks[7] ?? 0, all };
    });
}

/** Shares of each core between two looks. */
export function shares(from: ReturnType<typeof cores>): { busy: number; stolen: number }[] {
  return cores().map(({ busy, stolen, all }, core) => {
    const since = from[core] ?? { busy: 0, stolen: 0, all: 0 };
    const span = all - since.all || 1;
    return { busy: (busy - since.busy) / span, stolen: (stolen - since.stolen) / span };
  });
}
