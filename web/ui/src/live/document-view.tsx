/** A value topic as a document tree that highlights changes. */

import { useMemo, useState } from "preact/hooks";
import { fading } from "../changing.js";
import { bytes, counted } from "../format.js";
import { CHILDREN, type Line, lines, type Opened, ROWS_MAX, type Version } from "./document.js";
import type { Savings } from "./savings.js";

/** Children that a click on "more" adds. */
const MORE = 200;

interface Props {
  readonly version: Version;
  readonly savings: Savings;
  /** Whether the server may have a newer version. */
  readonly isUnknown: boolean;
}

export function DocumentView({ version, savings, isUnknown }: Props) {
  const [opened, setOpened] = useState<Opened>({ isOpen: new Map(), listed: new Map() });
  const seen = useMemo(() => lines(version, opened), [version, opened]);
  const toggle = ({ pointer, isOpen }: Line): void =>
    setOpened({ ...opened, isOpen: new Map(opened.isOpen).set(pointer, !isOpen) });
  const more = ({ pointer }: Line): void => {
    const listed = (opened.listed.get(pointer) ?? CHILDREN) + MORE;
    setOpened({ ...opened, listed: new Map(opened.listed).set(pointer, listed) });
  };
  return (
    <>
      <div class={isUnknown ? "document stale" : "document"} role="region" aria-label="Document" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">field</th>
              <th scope="col">value</th>
            </tr>
          </thead>
          <tbody>
            {seen.map((line) => (
              <Field key={line.pointer} line={line} number={version.number} toggle={toggle} more={more} />
            ))}
          </tbody>
        </table>
      </div>
      <p class="note">{summary(version, savings, seen.length)}</p>
    </>
  );
}

interface FieldProps {
  readonly line: Line;
  readonly number: number;
  toggle(line: Line): void;
  more(line: Line): void;
}

function Field({ line, number, toggle, more }: FieldProps) {
  const { pointer, name, depth, text, isOpen, isMarked, inside, hidden } = line;
  // A class for each depth: the content security policy of these pages forbids inline styles.
  return (
    <tr data-pointer={pointer}>
      <th scope="row" class={`d${Math.min(depth, 9)}`}>
        {isOpen === null ? (
          <span class="leaf">{name}</span>
        ) : (
          <button type="button" aria-expanded={isOpen} onClick={() => toggle(line)}>
            {name}
          </button>
        )}
      </th>
      <td class={isOpen === null ? undefined : "amount"}>
        <span key={isMarked ? number : 0} ref={isMarked ? fading : null} class={isMarked ? "changed" : undefined}>
          {text}
          {inside > 0 && `, ${inside.toLocaleString("en")} changed`}
        </span>
        {hidden > 0 && (
          <button type="button" class="more" onClick={() => more(line)}>
            {hidden.toLocaleString("en")} more
          </button>
        )}
      </td>
    </tr>
  );
}

function summary({ changed }: Version, { versions, received, whole, share }: Savings, count: number): string {
  const came = `${counted(versions, "version")} in ${bytes(received)}`;
  const saved = share < 0.01 ? "" : `; patches saved ${Math.floor(share * 100)} % of ${bytes(whole)}`;
  const cut = count < ROWS_MAX ? "" : ` Only ${ROWS_MAX.toLocaleString("en")} fields are shown.`;
  return `Received ${came}${saved}. ${counted(changed.size, "change")} in the newest version.${cut}`;
}
