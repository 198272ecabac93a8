/** Remote procedure calls over a port: notifications without an answer, and calls with one. */

import { ThalwegError } from "./errors.js";
import type { Newest } from "./wire.js";

/** An error that can be posted. @internal */
export interface SerializedError {
  code: string;
  message: string;
  status: number | null;
  newest: Newest | null;
}

/** @internal */
export function serializeError(error: unknown): SerializedError {
  const message = (error as Error | undefined)?.message ?? String(error);
  const { code, status, newest } =
    error instanceof ThalwegError ? error : { code: "failed", status: null, newest: null };
  return { code, message, status, newest };
}

/** @internal */
export function deserializeError({ code, message, status, newest }: SerializedError): ThalwegError {
  return new ThalwegError(code, message, status, newest);
}

type AnyMethods = Record<string, (...args: never[]) => unknown>;

interface RpcMessage {
  name?: string;
  args?: never[];
  /** The number of a call, or of the call that this message answers. */
  id?: number;
  value?: unknown;
  error?: SerializedError;
}

/** The other end. @internal */
export interface Remote<Methods extends AnyMethods> {
  /** Calls a method without an answer. Notifications are handled in order. */
  notify<Name extends keyof Methods & string>(name: Name, ...args: Parameters<Methods[Name]>): void;
  call<Name extends keyof Methods & string>(
    name: Name,
    ...args: Parameters<Methods[Name]>
  ): Promise<Awaited<ReturnType<Methods[Name]>>>;
  /** Rejects all pending calls with an error. */
  end(error: ThalwegError): void;
}

/** A port between two contexts. @internal */
export type Port = Pick<MessagePort | BroadcastChannel, "postMessage" | "onmessage" | "close">;

/** Returns the other end of a port. `here` handles its calls. @internal */
export function remote<Methods extends AnyMethods>(port: Port, here: AnyMethods): Remote<Methods> {
  const waiting = new Map<number | undefined, { resolve(value: never): void; reject(error: ThalwegError): void }>();
  let last = 0;

  const answer = ({ id, value, error }: RpcMessage): void => {
    const pending = waiting.get(id);
    waiting.delete(id);
    if (error) pending?.reject(deserializeError(error));
    else pending?.resolve(value as never);
  };

  port.onmessage = async ({ data }: MessageEvent<RpcMessage>) => {
    const { name, id, args = [] } = data;
    if (name === undefined) {
      answer(data);
      return;
    }
    try {
      const value = await here[name]?.(...args);
      if (id) port.postMessage({ id, value });
    } catch (error) {
      if (!id) throw error;
      port.postMessage({ id, error: serializeError(error) });
    }
  };

  return {
    notify: (name, ...args) => port.postMessage({ name, args }),
    call: (name, ...args) =>
      new Promise((resolve, reject) => {
        port.postMessage({ name, args, id: ++last });
        waiting.set(last, { resolve, reject });
      }),
    end(error) {
      for (const { reject } of waiting.values()) reject(error);
      waiting.clear();
    },
  };
}
