/** One match: score, statistics, timeline, commentary, and line-ups. */

import { useMemo, useRef } from "preact/hooks";
import { Changing, fading } from "../changing.js";
import { Lineup } from "./lineup.js";
import { type Brief, clock, isOn, type Match, type Moment, objects, type Side, score } from "./match.js";

const COMMENTS = 12;

/** Statistics that the page compares, in this order. */
const FIGURES: readonly [name: string, text: string, unit?: string][] = [
  ["possession", "Possession", " %"],
  ["shots", "Shots"],
  ["shots_on_target", "On target"],
  ["corners", "Corners"],
  ["fouls", "Fouls"],
  ["offsides", "Offside"],
  ["passes", "Passes"],
  ["pass_accuracy", "Accuracy", " %"],
];

export function MatchView({ match }: { match: Match }) {
  const { home, away, timeline, commentary, lineups } = match;
  return (
    <>
      <ScoreBoard match={match} />
      <div class="columns">
        <Timeline timeline={timeline} home={home} />
        <Figures home={home.stats} away={away.stats} />
        <Comments commentary={commentary} />
      </div>
      <div class="teams">
        <Lineup side={home} players={lineups} name="home" />
        <Lineup side={away} players={lineups} name="away" />
      </div>
    </>
  );
}

export function ScoreBoard({ match }: { match: Match }) {
  const { home, away, competition, venue } = match;
  const people = venue?.attendance === undefined ? "" : `, ${Number(venue.attendance).toLocaleString("en")} people`;
  return (
    <header class="board">
      <h1 class="quiet">
        {home.name} against {away.name}
      </h1>
      <p class="where">
        {[competition?.name, venue?.name].filter(Boolean).join(" · ")}
        {people}
      </p>
      <TeamName side={home} name="home" />
      <div class="score" aria-hidden="true">
        <b data-field="home/score">
          <Changing value={home.score ?? 0} />
        </b>
        <i>:</i>
        <b data-field="away/score">
          <Changing value={away.score ?? 0} />
        </b>
      </div>
      <TeamName side={away} name="away" />
      <p class={`clock${isOn(match) ? " on" : ""}`}>{clock(match)}</p>
      <Said match={match} />
    </header>
  );
}

function TeamName({ side, name }: { side: Side; name: "home" | "away" }) {
  return (
    <p class={`team ${name}`}>
      <i class="kit" aria-hidden="true" />
      <strong>{side.name}</strong>
      <span>{side.formation}</span>
    </p>
  );
}

/** The score for screen readers, announced when it changes. The board itself changes each second. */
function Said({ match }: { match: Brief }) {
  return (
    <p class="quiet" role="status">
      {score(match)}
    </p>
  );
}

/** Returns a test for moments that were not in the list before. No moment of the first list is new. */
function useIsNew(): (moments: readonly Moment[]) => (moment: Moment) => boolean {
  const known = useRef<ReadonlySet<unknown> | null>(null);
  return (moments) => {
    const before = known.current;
    known.current = new Set(moments.map(({ id }) => id));
    return ({ id }) => before !== null && !before.has(id);
  };
}

export function Timeline({ timeline, home }: { timeline: Match["timeline"]; home: Side }) {
  const isNewOf = useIsNew();
  return useMemo(() => {
    const moments = objects(timeline);
    const isNew = isNewOf(moments);
    return (
      <section class="timeline" aria-labelledby="timeline">
        <h2 id="timeline">Timeline</h2>
        {moments.length === 0 && <p class="note">No events yet.</p>}
        <ol reversed>
          {moments.map((moment) => (
            <li
              key={moment.id}
              ref={isNew(moment) ? fading : null}
              class={`${moment.team === home.id ? "home" : "away"}${isNew(moment) ? " changed" : ""}`}
            >
              <span class="minute">{moment.minute}′</span>
              <span class={`sign ${SIGNS[moment.type ?? ""] ?? "other"}`} aria-hidden="true" />
              <span>{moment.text}</span>
            </li>
          ))}
        </ol>
      </section>
    );
  }, [timeline, home.id]);
}

const SIGNS: Record<string, string> = { goal: "goal", yellow_card: "yellow", red_card: "red", substitution: "change" };

export function Figures({ home, away }: { home: Side["stats"]; away: Side["stats"] }) {
  return useMemo(
    () => (
      <section class="figures" aria-labelledby="figures">
        <h2 id="figures">Statistics</h2>
        <table>
          <thead class="quiet">
            <tr>
              <th scope="col">Home</th>
              <th scope="col">Statistic</th>
              <th scope="col">Away</th>
            </tr>
          </thead>
          <tbody>
            {FIGURES.map(([name, text, unit = ""]) => {
              const [here, there] = [home?.[name] ?? 0, away?.[name] ?? 0];
              return (
                <tr key={name}>
                  <td data-field={`home/stats/${name}`}>
                    <Changing value={here} text={`${here.toLocaleString("en")}${unit}`} />
                  </td>
                  <th scope="row">
                    {text}
                    <Bar home={here} away={there} />
                  </th>
                  <td data-field={`away/stats/${name}`}>
                    <Changing value={there} text={`${there.toLocaleString("en")}${unit}`} />
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </section>
    ),
    [home, away],
  );
}

/** The share of each team. It is an SVG, because the content security policy of these pages forbids inline styles. */
function Bar({ home, away }: { home: number; away: number }) {
  const share = home + away > 0 ? (home / (home + away)) * 100 : 50;
  return (
    <svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
      <rect class="home" width={Math.max(0, share - 0.5)} height="4" />
      <rect class="away" x={share + 0.5} width={Math.max(0, 99.5 - share)} height="4" />
    </svg>
  );
}

function Comments({ commentary }: { commentary: Match["commentary"] }) {
  const isNewOf = useIsNew();
  return useMemo(() => {
    const newest: readonly Moment[] = objects(commentary).slice(0, COMMENTS);
    const isNew = isNewOf(newest);
    return (
      <section class="comments" aria-labelledby="comments">
        <h2 id="comments">Commentary</h2>
        {newest.length === 0 && <p class="note">No comments yet.</p>}
        <ol reversed>
          {newest.map((moment) => (
            <li key={moment.id} ref={isNew(moment) ? fading : null} class={isNew(moment) ? "changed" : undefined}>
              <span class="minute">{moment.minute}′</span>
              <span>{moment.text}</span>
            </li>
          ))}
        </ol>
      </section>
    );
  }, [commentary]);
}
