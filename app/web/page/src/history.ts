// SPDX-License-Identifier: Apache-2.0
// What the plots show: one point per view, of a bounded number. Rates are differences of a node's counters over differences of
// its own clock; a counter that went back, or a node that does not respond, is a gap.

import { isPrimary, responds, type Merged, type Side } from "./model";
import type { Counters, View } from "./types";

/** Points that are kept: half an hour of seconds, and a few more. */
const KEPT = 1900;
/** A shorter span than this gives no rate: its difference would be noise. */
const SPAN_LEAST_MS = 400;
/** The page's clock follows the node's if they differ by more. */
const DRIFT_MOST_MS = 3000;

/**
 * The time of the plots, in milliseconds since 1970: the clock of the node that responded first. The browser continues it while
 * that node is gone: the clock of another node may differ. In a simulation: virtual time.
 */
export class Clock {
  private base: number | null = null;
  private index: number | null = null;

  /** The time of a view; null before any node responded. `elapsed_ms` is the browser's monotonic clock. */
  at(view: View, elapsed_ms: number): number | null {
    const run = view.simulation?.time_ms ?? elapsed_ms;
    if (this.index === null) {
      const first = view.nodes.findIndex((it) => it.error === null && it.status !== null);
      this.index = first < 0 ? null : first;
    }
    const node = this.index === null ? undefined : view.nodes[this.index];
    if (node?.status && node.error === null) {
      const now = node.status.at_ms + (view.simulation === null ? node.age_ms : 0) - run;
      if (this.base === null || Math.abs(now - this.base) > drift(view)) this.base = now;
    }
    return this.base === null ? null : this.base + run;
  }
}

/** The longest time between two points that are joined by a line. */
export function gap(view: View): number {
  return Math.max(5000, 5 * view.interval_ms) * Math.max(1, view.simulation?.speed ?? 1);
}

/** A status of a simulated node is at most a second of real time old, which may be a minute of virtual time. */
function drift(view: View): number {
  return DRIFT_MOST_MS * Math.max(1, view.simulation?.speed ?? 1);
}

const SERIES = ["written", "sent", "received", "mean", "p50", "p99", "lag", "behind", "queue", "bound"] as const;
export type Point = Record<(typeof SERIES)[number], number | null>;

const NOTHING = Object.fromEntries(SERIES.map((name) => [name, null])) as Point;

/** Rates of one node. */
class Track {
  private last: { at: number; uptime: number; counters: Counters } | null = null;
  private rates: Rates | null = null;

  take(side: Side): Rates | null {
    if (!responds(side) || side.group === null) {
      this.last = this.rates = null;
      return null;
    }
    const { at_ms: at, uptime_seconds: uptime } = side;
    const { counters } = side.group;
    const last = this.last;
    // A daemon that started again counts from zero, and may be beyond the last counters already.
    const again = last === null || uptime < last.uptime || at < last.at || wentBack(last.counters, counters);
    if (!again && at - last.at < SPAN_LEAST_MS) return this.rates;
    this.last = { at, uptime, counters };
    this.rates = again ? null : rates(last.counters, counters, at - last.at);
    return this.rates;
  }
}

interface Rates {
  written: number;
  sent: number;
  received: number;
  timed: number;
  timed_seconds: number;
}

function wentBack(before: Counters, now: Counters): boolean {
  return (
    now.write_bytes < before.write_bytes ||
    now.sent_bytes < before.sent_bytes ||
    now.received_bytes < before.received_bytes ||
    now.timed < before.timed
  );
}

function rates(before: Counters, now: Counters, span_ms: number): Rates {
  const per = (a: number, b: number) => ((b - a) * 1000) / span_ms;
  return {
    written: per(before.write_bytes, now.write_bytes),
    sent: per(before.sent_bytes, now.sent_bytes),
    received: per(before.received_bytes, now.received_bytes),
    timed: now.timed - before.timed,
    timed_seconds: now.timed_seconds - before.timed_seconds,
  };
}

/** The points of one group, the oldest first. */
export class History {
  readonly times: number[] = [];
  readonly points: Point[] = [];
  private readonly tracks = new Map<string, Track>();

  /**
   * Takes a point; one of the same time as the last (a view after an action, or a paused simulation) takes its place. A longer
   * time than `gap_ms` without a view is a gap.
   */
  take(group: Merged, at: number, gap_ms: number): void {
    const point = this.measure(group);
    const last = this.times.at(-1);
    if (last !== undefined && at < last) this.clear();
    if (last === at) {
      this.points[this.points.length - 1] = point;
      return;
    }
    if (last !== undefined && at - last > gap_ms) this.push(at - 1, NOTHING);
    this.push(at, point);
  }

  private push(at: number, point: Point): void {
    this.times.push(at);
    this.points.push(point);
    if (this.times.length > KEPT) {
      this.times.shift();
      this.points.shift();
    }
  }

  private clear(): void {
    this.times.length = this.points.length = 0;
  }

  private measure(group: Merged): Point {
    const measured = group.sides.map((side) => ({ side, rates: this.track(side.name).take(side) }));
    const primaries = measured.filter(({ side }) => isPrimary(side));
    const others = measured.filter(({ side }) => responds(side) && !isPrimary(side));
    const groups = primaries.map(({ side }) => side.group);
    const most = (of: (group: (typeof groups)[number]) => number | null | undefined) => largest(groups.map(of));
    const timed = sum(primaries.map(({ rates }) => rates?.timed ?? null));
    const timed_seconds = sum(primaries.map(({ rates }) => rates?.timed_seconds ?? null));
    return {
      written: sum(primaries.map(({ rates }) => rates?.written ?? null)),
      sent: sum(primaries.map(({ rates }) => rates?.sent ?? null)),
      received: sum(others.map(({ rates }) => rates?.received ?? null)),
      mean: timed !== null && timed > 0 && timed_seconds !== null ? (timed_seconds * 1e6) / timed : null,
      p50: most((g) => (g?.answers?.writes.count ? g.answers.writes.p50_us : null)),
      p99: most((g) => (g?.answers?.writes.count ? g.answers.writes.p99_us : null)),
      lag: most((g) => (g?.peer ? g.lag.bytes : null)),
      behind: most((g) => (g?.peer ? g.lag.seconds : null)),
      queue: most((g) => g?.queue?.bytes),
      bound: most((g) => g?.queue?.bound_bytes),
    };
  }

  private track(node: string): Track {
    const track = this.tracks.get(node) ?? new Track();
    this.tracks.set(node, track);
    return track;
  }

  /** The last point; all values are null before there is one. */
  last(): Point | null {
    return this.points.at(-1) ?? null;
  }

  /** Index of the first point that is not older than `span_ms` before the last. */
  from(span_ms: number): number {
    const end = this.times.at(-1);
    if (end === undefined) return 0;
    const first = this.times.findIndex((time) => time >= end - span_ms);
    return Math.max(0, first);
  }
}

function sum(values: (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : known.reduce((a, b) => a + b, 0);
}

function largest(values: (number | null | undefined)[]): number | null {
  const known = values.filter((value) => value !== null && value !== undefined);
  return known.length === 0 ? null : Math.max(...known);
}
