/** A minimal client without the SDK. */

const PATHS = {
  websocket(url, hear) {
    const socket = new WebSocket(url.replace("http", "ws"));
    socket.onmessage = ({ data }) => hear(JSON.parse(data));
    return () => socket.close();
  },
  sse(url, hear) {
    const source = new EventSource(url);
    source.onmessage = ({ data }) => hear(JSON.parse(data));
    source.addEventListener("gap", ({ data }) => hear(JSON.parse(data)));
    return () => source.close();
  },
  "http-streaming"(url, hear) {
    const stop = new AbortController();
    read(url, hear, stop.signal).catch(() => {});
    return () => stop.abort();
  },
};

async function read(url, hear, signal) {
  const { body } = await fetch(url, { headers: { Accept: "application/x-ndjson" }, signal });
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = lines.pop();
    for (const line of lines) hear(JSON.parse(line));
  }
}

/** Passes each batch of the topic at `url` as `{ events, gap }`. Returns a function that closes the connection. */
export function listen(transport, url, hear) {
  return PATHS[transport](url, ({ events = [], gap = null }) => hear({ events, gap }));
}
