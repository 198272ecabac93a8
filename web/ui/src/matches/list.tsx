/** All matches of a feed, one card each. */

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { Changing } from "../changing.js";
import { type Brief, clock, isOn, score } from "./match.js";

interface Props {
  readonly matches: readonly Brief[];
  link(match: Brief, content: ComponentChildren): ComponentChildren;
}

export function MatchList({ matches, link }: Props) {
  if (!matches.length) return <p class="about">No matches at the moment.</p>;
  return (
    <ul class="cards">
      {matches.map((match) => (
        <Card key={match.id} match={match} link={link} />
      ))}
    </ul>
  );
}

function Card({ match, link }: { match: Brief; link: Props["link"] }) {
  // A match without changes is the same object, and is not rendered again.
  return useMemo(
    () => (
      <li class={`card${isOn(match) ? " on" : ""}`}>
        {link(
          match,
          <>
            <span class="quiet">
              {score(match)}, {clock(match)}
            </span>
            <span aria-hidden="true" class="minute">
              {clock(match)}
            </span>
            <span aria-hidden="true" class="sides">
              {[match.home, match.away].map(({ id, name, score = 0 }, at) => (
                <span key={id} class={at ? "away" : "home"}>
                  <i class="kit" />
                  <span>{name}</span>
                  <b data-field={`${match.id}/${at ? "away" : "home"}/score`}>
                    <Changing value={score} />
                  </b>
                </span>
              ))}
            </span>
          </>,
        )}
      </li>
    ),
    [match],
  );
}
