// SPDX-License-Identifier: Apache-2.0
// The connection to the server: its events, and whether they arrive.

import { oldAfter } from "./model";
import type { Acted, ApiError, Happening, View } from "./types";

/** The browser does not try again by itself after a response that is no stream. */
const RETRY_MS = 3000;
/** A request that has no response after so long has failed. */
const REQUEST_MOST_MS = 40_000;

export type Liveness =
  | { kind: "connecting" }
  | { kind: "live" }
  | { kind: "silent"; seconds: number }
  | { kind: "gone"; seconds: number }
  /** The page failed on what it received. */
  | { kind: "broken"; why: string };

export interface Handlers {
  view(view: View): void;
  happening(happening: Happening): void;
  liveness(liveness: Liveness): void;
}

export class Live {
  private source: EventSource | null = null;
  private last: number | null = null;
  private interval_ms = 1000;
  private gone = false;
  private broken: string | null = null;

  constructor(private readonly handlers: Handlers) {}

  start(): void {
    this.connect();
    setInterval(() => this.report(), 1000);
  }

  isLive(): boolean {
    return this.liveness().kind === "live";
  }

  private connect(): void {
    this.source?.close();
    const source = new EventSource("live");
    this.source = source;
    source.addEventListener("view", (event) => {
      this.last = performance.now();
      this.gone = false;
      this.take(() => {
        const view = JSON.parse(String(event.data)) as View;
        this.interval_ms = view.interval_ms;
        this.handlers.view(view);
        this.broken = null;
      });
      this.report();
    });
    source.addEventListener("happening", (event) => {
      this.take(() => this.handlers.happening(JSON.parse(String(event.data)) as Happening));
    });
    source.addEventListener("gone", () => {
      this.gone = true;
      this.report();
    });
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) setTimeout(() => this.connect(), RETRY_MS);
    });
  }

  /** A page that could not show an update is not live. */
  private take(show: () => void): void {
    try {
      show();
    } catch (error) {
      this.broken = String(error);
    }
  }

  private liveness(): Liveness {
    if (this.last === null) return { kind: "connecting" };
    const age = performance.now() - this.last;
    const seconds = Math.floor(age / 1000);
    if (this.broken !== null) return { kind: "broken", why: this.broken };
    if (this.gone) return { kind: "gone", seconds };
    return age > oldAfter(this.interval_ms) ? { kind: "silent", seconds } : { kind: "live" };
  }

  private report(): void {
    this.handlers.liveness(this.liveness());
  }
}

export type Result = { ok: true; acted: Acted } | { ok: false; status: number; error: ApiError };

/** Sends a request. Every outcome is a result, also no response. */
export async function post(path: "act" | "simulate", body: unknown): Promise<Result> {
  try {
    const response = await fetch(path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(REQUEST_MOST_MS),
    });
    const answer = parsed(await response.text());
    if (response.ok) {
      const acted = answer as Partial<Acted> | null;
      return { ok: true, acted: { message: acted?.message ?? "", warnings: acted?.warnings ?? [] } };
    }
    return { ok: false, status: response.status, error: refusal(answer, response.status) };
  } catch (error) {
    const late = error instanceof DOMException && error.name === "TimeoutError";
    const within = late ? ` within ${REQUEST_MOST_MS / 1000} s` : "";
    const hint = late
      ? "the request may still be in progress: see the status before you try again"
      : "it is not known whether the request arrived: see the status, then try again";
    const failed = { error: `\`helio dashboard\` did not respond${within}`, code: "no-response", hint };
    return { ok: false, status: 0, error: failed };
  }
}

/** The JSON of a response; null if it is none. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function refusal(answer: unknown, status: number): ApiError {
  const given = answer as Partial<ApiError> | null;
  if (typeof given?.error === "string") {
    return { ...given, error: given.error, code: given.code ?? "", hint: given.hint ?? null };
  }
  return {
    error: `\`helio dashboard\` refused the request with status ${status}`,
    code: "",
    hint: "see its terminal for the reason",
  };
}
