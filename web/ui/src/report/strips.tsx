/** Values with whiskers, a line each, on one axis. */

/** A value with its interval, or a heading of the lines below it. */
export interface Strip {
  readonly label: string;
  /** Absent in a heading. */
  readonly value?: number | null;
  readonly low?: number | null;
  readonly high?: number | null;
  /** A class of colours, or the word of a comparison. */
  readonly look?: string;
  readonly figure?: string;
  readonly tip?: string | undefined;
}

interface Props {
  readonly title: string;
  readonly strips: readonly Strip[];
  /** Whether values are ratios: the axis is logarithmic, with 1 in the middle. */
  readonly isRatio?: boolean;
}

/** An interval that is wider than all values by this factor is clipped. */
const REACH = 1.5;

export function Strips({ title, strips, isRatio = false }: Props) {
  const values = strips.flatMap(({ value }) => (value === null || value === undefined ? [] : [value]));
  if (!values.length) return null;
  const far = (value: number): number => Math.max(value, 1 / Math.max(value, 1e-3));
  const ends = strips.flatMap(({ low, high }) => [low ?? 1, high ?? 1]);
  const widest = Math.max(...values.map(far));
  const reach = Math.max(1.1, widest, Math.min(Math.max(...ends.map(far)), widest * REACH));
  const most = Math.max(...values, ...strips.map(({ high }) => high ?? 0));
  const share = (value: number): number =>
    isRatio ? 0.5 + (0.5 * Math.log(value)) / Math.log(reach) : value / (most || 1);
  const place = (value: number): string => `${(2 + 96 * Math.min(1, Math.max(0, share(value)))).toFixed(2)}%`;
  return (
    <figure class="strips">
      <figcaption>{title}</figcaption>
      {strips.map(({ label, value, low, high, look = "", figure, tip }, index) =>
        value === undefined ? (
          <h4 key={index}>{label}</h4>
        ) : (
          <div key={index} class={`strip ${look}`} title={tip}>
            <span class="label">{label}</span>
            <svg aria-hidden="true">
              <line class="middle" x1={place(isRatio ? 1 : 0)} x2={place(isRatio ? 1 : 0)} y1="0" y2="100%" />
              {value !== null && (
                <>
                  {typeof low === "number" && typeof high === "number" && (
                    <>
                      <line class="whisker" x1={place(low)} x2={place(high)} y1="50%" y2="50%" />
                      <line class="whisker" x1={place(low)} x2={place(low)} y1="30%" y2="70%" />
                      <line class="whisker" x1={place(high)} x2={place(high)} y1="30%" y2="70%" />
                    </>
                  )}
                  <circle cx={place(value)} cy="50%" r="4.5" />
                </>
              )}
            </svg>
            <span class="figure">{figure}</span>
          </div>
        ),
      )}
    </figure>
  );
}
