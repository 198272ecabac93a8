/** A forever frame: a hidden document that never ends and calls the page around it. */

import { type Transport, url } from "./transport.js";

type Receive = (text: string, from: Window) => void;
type Page = Window & { thalweg?: Receive };

/** The page's frames, by their windows. */
const frames = new Map<Window, (text: string) => void>();

/** The forever frame, to be given to a session; only for a server of the page's own origin. */
export const foreverFrame: Transport = {
  name: "forever-frame",
  isTwoWay: false,
  hasHeaders: false,
  hasBackpressure: false,
  // A document of another origin may not call this one.
  isSupported: (base) => typeof document === "object" && base.origin === location.origin,
  open(plan, handlers) {
    (window as Page).thalweg ??= (text, from) => frames.get(from)?.(text);
    const frame = document.createElement("iframe");
    frame.hidden = true;
    frame.src = url(plan, { transport: "forever-frame" }).href;
    document.body.append(frame);
    const inside = frame.contentWindow as Window;
    frames.set(inside, handlers.text);
    // `load` comes when the document has ended, closed or refused by the server. Of one that is
    // cut browsers tell nothing: the session's idle timeout finds it.
    frame.onload = () => handlers.ended({});
    return {
      close() {
        frames.delete(inside);
        frame.remove();
      },
    };
  },
};
