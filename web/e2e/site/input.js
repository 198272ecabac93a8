/**
 * How long input waits, ms: until its handler begins, and until the next frame is painted.
 * Put into pages before they begin.
 */

globalThis.inputDelays = { handler: [], paint: [], timing: [] };

for (const type of ["mousedown", "keydown"]) {
  addEventListener(
    type,
    ({ timeStamp }) => {
      inputDelays.handler.push(performance.now() - timeStamp);
      // A message posted in the frame's callback comes when the frame is done.
      requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => inputDelays.paint.push(performance.now() - timeStamp);
        port2.postMessage(null);
      });
    },
    { capture: true },
  );
}

// The browser's own opinion: only of those that took 16 ms or more.
new PerformanceObserver((list) => {
  for (const { name, duration } of list.getEntries()) {
    if (name === "mousedown" || name === "keydown") inputDelays.timing.push(duration);
  }
}).observe({ type: "event", durationThreshold: 16 });
