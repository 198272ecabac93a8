/** The forever frame: a hidden document that never ends and calls the page around it. */

import { type Transport, url } from "./transport.js";

type Receive = (text: string, from: Window) => void;
type Page = Window & { thalweg?: Receive };

/** The page's frames, by their windows. */
const frames = new Map<Window, (text: string) => void>();

/** The forever frame, for the option `transports`; only for servers of the page's own origin. */
export const foreverFrame: Transport = {
  name: "forever-frame",
  isTwoWay: false,
  hasHeaders: false,
  hasBackpressure: false,
  // A document of another origin cannot call this page.
  isSupported: (base) => typeof document === "object" && base.origin === location.origin,
  open(plan, handlers) {
    (window as Page).thalweg ??= (text, from) => frames.get(from)?.(text);
    const frame = document.createElement("iframe");
    frame.hidden = true;
    frame.src = url(plan, { transport: "forever-frame" }).href;
    document.body.append(frame);
    const inside = frame.contentWindow as Window;
    frames.set(inside, handlers.text);
    // `load` means that the document has ended, or that the server closed or rejected it. Browsers do not report
    // a document that is cut off: the session's idle timeout detects that.
    frame.onload = () => handlers.ended({});
    return {
      close() {
        frames.delete(inside);
        frame.remove();
      },
    };
  },
};
