/** How far it was when, so that what came in a span is known afterwards, however busy the page was. */

/** Points lie at least so far apart, ms. */
const POINT_MS = 2;
/** So many are kept: half a minute. */
const POINTS_MAX = 16384;
/** Numbers of a point: when (ms of the page's clock), events, bytes, messages, and due time of the last. */
const FIELDS = 5;

class Timeline {
  constructor() {
    this.points = new Float64Array(POINTS_MAX * FIELDS);
    this.count = 0;
    this.lastMs = 0;
    this.events = 0;
    this.bytes = 0;
    this.messages = 0;
  }

  /**
   * A message came.
   * @param {Taken} taken
   * @param {number} bytes
   */
  came({ events, dueUs }, bytes) {
    this.events += events;
    this.bytes += bytes;
    this.messages += 1;
    const nowMs = clockMs();
    if (nowMs - this.lastMs < POINT_MS) return;
    this.lastMs = nowMs;
    const at = (this.count % POINTS_MAX) * FIELDS;
    this.points.set([nowMs, this.events, this.bytes, this.messages, dueUs], at);
    this.count += 1;
  }

  /**
   * The points from then on and the last one before, oldest first; and how it is now.
   * @param {number} fromMs
   * @returns {number[][]}
   */
  since(fromMs) {
    const kept = [[clockMs(), this.events, this.bytes, this.messages, 0]];
    const oldest = Math.max(0, this.count - POINTS_MAX);
    for (let index = this.count - 1; index >= oldest; index--) {
      const at = (index % POINTS_MAX) * FIELDS;
      const point = [...this.points.subarray(at, at + FIELDS)];
      kept.push(point);
      if (/** @type {number} */ (point[0]) < fromMs) break;
    }
    return kept.reverse();
  }
}

/** Now, in ms, the same in a page and its workers. */
function clockMs() {
  return performance.timeOrigin + performance.now();
}
