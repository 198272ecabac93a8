/** How far it was when, so that what came in a span is known afterwards, however busy the page was. */

/** Points lie at least so far apart at first, ms. */
const POINT_MS = 2;
/** So many are kept: half a minute. When there are more, every second one goes, and those that come lie twice as far apart. */
const POINTS_MAX = 16384;
/** Numbers of a point: when (ms of the page's clock), events, bytes, messages, and due time of the last. */
const FIELDS = 5;

class Timeline {
  constructor() {
    this.points = new Float64Array(POINTS_MAX * FIELDS);
    this.count = 0;
    this.lastMs = 0;
    this.apartMs = POINT_MS;
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
    if (nowMs - this.lastMs < this.apartMs) return;
    this.lastMs = nowMs;
    if (this.count === POINTS_MAX) this.thin();
    this.points.set([nowMs, this.events, this.bytes, this.messages, dueUs], this.count * FIELDS);
    this.count += 1;
  }

  /** Every second point goes. */
  thin() {
    this.count = POINTS_MAX / 2;
    this.apartMs *= 2;
    for (let index = 0; index < this.count; index++) {
      const from = (2 * index + 1) * FIELDS;
      this.points.copyWithin(index * FIELDS, from, from + FIELDS);
    }
  }

  /**
   * The points from then on and the last one before, oldest first; and how it is now.
   * @param {number} fromMs
   * @returns {number[][]}
   */
  since(fromMs) {
    const kept = [[clockMs(), this.events, this.bytes, this.messages, 0]];
    for (let index = this.count - 1; index >= 0; index--) {
      const at = index * FIELDS;
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
