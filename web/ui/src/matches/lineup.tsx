/** A team's players, with their figures and ratings. */

import { useMemo } from "preact/hooks";
import { Changing } from "../changing.js";
import { grade, objects, type Player, type Side } from "./match.js";

interface Props {
  readonly side: Side;
  readonly players: readonly Player[] | undefined;
  readonly name: "home" | "away";
}

/** Figures of a player that the table shows, in this order. */
const COUNTS: readonly [name: string, text: string][] = [
  ["touches", "Touches"],
  ["passes", "Passes"],
  ["tackles", "Tackles"],
  ["shots", "Shots"],
];

export function Lineup({ side, players, name }: Props) {
  const its = useMemo(() => objects(players).filter(({ team }) => team === side.id), [players, side.id]);
  const [begun, bench] = [its.filter(({ starting }) => starting), its.filter(({ starting }) => !starting)];
  return (
    <section class={`lineup ${name}`} aria-label={`Line-up of ${side.name}`}>
      <h2>
        <i class="kit" aria-hidden="true" /> {side.name}
      </h2>
      <table>
        <thead>
          <tr>
            <th scope="col">
              <span class="quiet">Number</span>
            </th>
            <th scope="col" class="who">
              Player
            </th>
            {COUNTS.map(([name, text]) => (
              <th key={name} scope="col" class={name}>
                {text}
              </th>
            ))}
            <th scope="col">Rating</th>
          </tr>
        </thead>
        <tbody>
          {begun.map((player) => (
            <Row key={player.id} player={player} />
          ))}
        </tbody>
        {bench.length > 0 && (
          <tbody>
            <tr class="bench">
              <th colSpan={COUNTS.length + 3} scope="rowgroup">
                Bench
              </th>
            </tr>
            {bench.map((player) => (
              <Row key={player.id} player={player} />
            ))}
          </tbody>
        )}
      </table>
    </section>
  );
}

function Row({ player }: { player: Player }) {
  // A player without changes is the same object, and is not rendered again.
  return useMemo(() => {
    const { id, number, name, position, on_pitch: isOn, rating, stats } = player;
    return (
      <tr class={isOn ? "" : "off"}>
        <td class="number">{number}</td>
        <th scope="row" class="who">
          {name} <small>{position}</small>
        </th>
        {COUNTS.map(([count]) => (
          <td key={count} class={count} data-field={`${id}/${count}`}>
            <Changing value={stats?.[count] ?? 0} />
          </td>
        ))}
        <td class="rating" data-field={`${id}/rating`}>
          {typeof rating === "number" && (isOn || !!stats?.["touches"]) && (
            <span class={grade(rating)}>
              <Changing value={rating} text={rating.toFixed(1)} />
            </span>
          )}
        </td>
      </tr>
    );
  }, [player]);
}
