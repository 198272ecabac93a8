/** A notice above a document that may not be the newest one. */

interface Props {
  /** `null`: it is the newest. */
  readonly sinceMs: number | null;
  /** Whether a version is shown below. */
  readonly hasVersion: boolean;
}

export function Unknown({ sinceMs, hasVersion }: Props) {
  if (sinceMs === null) return null;
  const since = new Date(sinceMs);
  const shown = hasVersion ? " Below is the last one that came here." : "";
  return (
    <p class="unknown" role="status">
      <strong>
        Value unknown since <time dateTime={since.toISOString()}>{since.toTimeString().slice(0, 8)}</time>.
      </strong>{" "}
      The server does not have the newest version, for instance because it was restarted.{shown} The next one appears
      here as soon as it is published.
    </p>
  );
}
