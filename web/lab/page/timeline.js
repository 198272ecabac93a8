/** Records the progress over time, so that the events of a span are known afterwards, even if the page was busy. */

/** Initial distance between points, ms. */
const POINT_MS = 2;
/** Maximum number of points: half a minute. Beyond it every second point is dropped, and the distance doubles. */
const POINTS_MAX = 16384;
/** Members of a point: time (ms of the page's clock), events, bytes, messages, and due time of the last event. */
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
   * Records a message.
   * @param {Taken} taken
   * @param {number} bytes
   */
  add({ events, dueUs }, bytes) {
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

  thin() {
    this.count = POINTS_MAX / 2;
    this.apartMs *= 2;
    for (let index = 0; index < this.count; index++) {
      const from = (2 * index + 1) * FIELDS;
      this.points.copyWithin(index * FIELDS, from, from + FIELDS);
    }
  }

  /**
   * Returns the points since `fromMs` with the last point before it, oldest first, and the current state.
   * @param {number} fromMs @returns {number[][]}
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

/** The current time, ms, on the same clock in a page and its workers. */
function clockMs() {
  return performance.timeOrigin + performance.now();
}
