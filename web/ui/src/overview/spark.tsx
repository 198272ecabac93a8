/** A line without axes, for the trend of a figure beside it. */

interface Props {
  readonly values: readonly number[];
  /** Number of values that fill the width. Fewer begin at the right edge. */
  readonly room: number;
}

const HEIGHT = 20;

export function Spark({ values, room }: Props) {
  const most = Math.max(...values, 0) || 1;
  const from = room - values.length;
  const points = values.map((value, index) => `${from + index},${rounded(HEIGHT - 1 - (value / most) * (HEIGHT - 2))}`);
  return (
    <svg class="spark" viewBox={`0 0 ${room - 1} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      {values.length > 1 && (
        <>
          <path class="area" d={`M${from},${HEIGHT}L${points.join(" ")}V${HEIGHT}Z`} />
          <path class="line" d={`M${points.join(" ")}`} />
        </>
      )}
    </svg>
  );
}

/** A bar that is filled in part. */
export function Bar({ share }: { share: number }) {
  const width = Math.min(100, Math.max(share > 0 ? 0.5 : 0, share * 100));
  return (
    <svg class={share >= 0.8 ? "bar high" : "bar"} viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
      <rect class="room" width="100" height="6" />
      <rect class="filled" width={rounded(width)} height="6" />
    </svg>
  );
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}
