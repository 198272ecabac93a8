/** Reads the golden vectors (vectors/README.md). */

import { readFileSync } from "node:fs";

/** Converts a text that represents bytes. */
export type Text = string | (string | { repeat: string; times: number } | { hex: string })[];

/** A message, decoded. */
export interface Said {
  envelope?: {
    topic: string;
    position: string;
    first: number;
    after?: number;
    previous?: number;
    until?: number;
    offsets?: number[];
    keys?: Text[];
    events: Text[];
  };
  gap?: { topic: string; position: string; missed: number | null; reason: string };
  end?: { topic: string; position: string; code: string; reason: string };
  heartbeat?: object;
  close?: { code: number; reason: string; reconnect: boolean };
}

export function read<T>(file: string): T {
  const url = new URL(`../../../vectors/${file}`, import.meta.url);
  return JSON.parse(readFileSync(url, "utf8")) as T;
}

export function bytes(text: Text): Buffer {
  const pieces = typeof text === "string" ? [text] : text;
  return Buffer.concat(
    pieces.map((piece) => {
      if (typeof piece === "string") return Buffer.from(piece);
      if ("hex" in piece) return Buffer.from(piece.hex, "hex");
      return Buffer.from(piece.repeat.repeat(piece.times));
    }),
  );
}
