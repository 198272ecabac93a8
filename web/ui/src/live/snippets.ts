/** Code that subscribes to a topic, for readers to copy. Pure. */

export const LANGUAGES = ["curl", "SDK", "Python"] as const;
export type Language = (typeof LANGUAGES)[number];

/** @param server - the server's address, with a slash at its end. @param isProtected - whether requests need a token. */
export function snippet(language: Language, topic: string, server: string, isProtected: boolean): string {
  const url = `${server}v1/topics/${topicPath(topic)}`;
  switch (language) {
    case "curl": {
      const token = isProtected ? ` -H "Authorization: Bearer $TOKEN"` : "";
      return `curl -N${token} -H 'Accept: application/x-ndjson' '${quoted(url)}'`;
    }
    case "SDK": {
      const options = isProtected ? ", { token: async () => TOKEN }" : "";
      return `import { connect } from ${JSON.stringify(`${server}sdk/thalweg.js`)};

const session = connect(${JSON.stringify(server)}${options});
for await (const { events, gap } of session.subscribe(${JSON.stringify(topic)})) {
  if (gap) console.warn("missed", gap.missed);
  for (const event of events) console.log(event);
}`;
    }
    case "Python": {
      const headers = `{"Accept": "application/x-ndjson"${isProtected ? ', "Authorization": f"Bearer {TOKEN}"' : ""}}`;
      return `import json, urllib.request

request = urllib.request.Request(${JSON.stringify(url)}, headers=${headers})
for line in urllib.request.urlopen(request):
    if line.strip():
        for event in json.loads(line).get("events", []):
            print(event)`;
    }
  }
}

/** Returns a topic as a part of a path. */
export function topicPath(topic: string): string {
  return topic.split("/").map(encodeURIComponent).join("/");
}

/** Returns a text within the single quotes of a shell. */
function quoted(text: string): string {
  return text.replaceAll("'", "'\\''");
}
