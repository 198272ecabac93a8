/** All matches, or the chosen one, each from its own document. */

import { render } from "preact";
import type { Gap, Session, Subscription } from "thalweg";
import { counted } from "../format.js";
import { MatchList } from "../matches/list.js";
import { briefs, match } from "../matches/match.js";
import { Figures, ScoreBoard, Timeline } from "../matches/match-view.js";
import { matches } from "./code/matches.js";
import { at, type Draw, say } from "./page.js";

export function matchesPanel(session: Session): Draw {
  const body = at("match-body");
  let subscription: Subscription<unknown> | undefined;
  let chosen: string | null = null;
  let document: unknown;
  let versions = 0;
  let isUnknown = false;
  let isDrawn = true;

  const choose = (id: string | null): void => {
    subscription?.close();
    [chosen, document, versions, isDrawn] = [id, undefined, 0, false];
    subscription = matches(session, id, (newest: unknown, gap: Gap | null) => {
      isUnknown = newest === undefined && gap !== null;
      isDrawn = false;
      if (newest === undefined) return;
      document = newest;
      versions += 1;
    });
  };
  const press = (id: string | null): void => {
    choose(id);
    draw();
    body.scrollTop = 0;
    // The pressed button is no longer on the page, and the list is not there yet.
    (body.querySelector("button") ?? body).focus();
  };
  const draw = (): void => {
    if (isDrawn) return;
    isDrawn = true;
    const one = chosen === null ? null : match(document);
    const all = chosen === null ? briefs(document) : null;
    render(
      <>
        {chosen !== null && (
          <button type="button" class="back" onClick={() => press(null)}>
            All matches
          </button>
        )}
        {one && (
          <>
            <ScoreBoard match={one} />
            <div class="columns">
              <Figures home={one.home.stats} away={one.away.stats} />
              <Timeline timeline={one.timeline} home={one.home} />
            </div>
          </>
        )}
        {all && (
          <MatchList
            matches={all}
            link={({ id }, content) => (
              <button type="button" onClick={() => press(id)}>
                {content}
              </button>
            )}
          />
        )}
      </>,
      body,
    );
    const text = versions ? `${counted(versions, "version")} of the document received` : "";
    say(at("matches-live"), isUnknown ? "The newest version is unknown until the next one arrives" : text);
  };
  choose(null);
  return draw;
}
