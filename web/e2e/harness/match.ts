/** Minimal documents of a match feed with all parts; teams and players are invented. */

import type { Server } from "./server.js";

export const MATCH_FEED = ["--topic", "matchesfeed/**,kind=value"] as const;

export interface Player {
  id: string;
  team: string;
  number: number;
  name: string;
  position: string;
  starting: boolean;
  on_pitch: boolean;
  rating: number;
  stats: Record<string, number>;
  actions: unknown[];
}

const STATS = { possession: 50, shots: 1, shots_on_target: 1, corners: 0, fouls: 2, offsides: 0, passes: 90 };

const side = (id: string, name: string) => ({
  id,
  name,
  score: 0,
  formation: "4-4-2",
  stats: { ...STATS, pass_accuracy: 80 } as Record<string, number>,
});

const player = (team: string, name: string, number: number): Player => ({
  id: `${team}p${number}`,
  team,
  number,
  name: `${name} ${number}`,
  position: number === 1 ? "GK" : "MF",
  starting: number <= 11,
  on_pitch: number <= 11,
  rating: 6 + (number % 3),
  stats: { passes: 10 * number, shots: 0, touches: 20 * number, tackles: 3 },
  actions: [],
});

/** @param actions - number of actions per player, which sets the size of the document. */
export function match(id: string, actions = 0) {
  const teams = [side("t1", "Reds"), side("t2", "Blues")] as const;
  const players = teams.flatMap(({ id, name }) => Array.from({ length: 14 }, (_, at) => player(id, name, at + 1)));
  for (const { actions: list } of players) {
    for (let at = 0; at < actions; at++)
      list.push({ id: `a${at}`, second: at, type: "pass", from: [10, 20], to: [30, 40], ok: true });
  }
  return {
    id,
    competition: { id: "c1", name: "Harbour League" },
    kickoff: "2026-11-21T15:00:00Z",
    status: "first_half",
    clock: { minute: 12, second: 5 },
    venue: { name: "East Park", attendance: 31_240 },
    home: teams[0],
    away: teams[1],
    timeline: [{ id: "e1", minute: 7, type: "yellow_card", team: "t2", player: "t2p5", text: "Yellow card: Blues 5" }],
    lineups: players,
    commentary: [{ id: "m1", minute: 11, text: "Reds keep the ball" }],
  };
}

export type Match = ReturnType<typeof match>;

export function list(...matches: Match[]) {
  const brief = ({ id, name, score }: Match["home"]) => ({ id, name, score });
  const all = matches.map(({ id, home, away, status, clock }) => ({
    id,
    home: brief(home),
    away: brief(away),
    status,
    clock,
  }));
  return { matches: all };
}

export async function post(server: Server, topic: string, document: unknown): Promise<void> {
  const headers = { "Content-Type": "application/json" };
  const body = JSON.stringify(document);
  const response = await fetch(`${server.origin}/v1/topics/${topic}`, { method: "POST", headers, body });
  if (!response.ok) throw new Error(`publishing to ${topic}: ${await response.text()}`);
}
