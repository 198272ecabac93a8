/** The notice above a document that may be outdated. */

interface Props {
  /** Time since which the newest version is unknown; `null` while it is known. */
  readonly sinceMs: number | null;
  /** Whether a version is shown below. */
  readonly hasVersion: boolean;
}

export function Unknown({ sinceMs, hasVersion }: Props) {
  if (sinceMs === null) return null;
  const since = new Date(sinceMs);
  const shown = hasVersion ? " The page shows the last version that it received." : "";
  return (
    <p class="unknown" role="status">
      <strong>
        Newest version unknown since <time dateTime={since.toISOString()}>{since.toTimeString().slice(0, 8)}</time>.
      </strong>{" "}
      The server does not have the newest version, for example because it was restarted.{shown} The next version appears
      here as soon as it is published.
    </p>
  );
}
