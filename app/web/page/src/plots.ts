// SPDX-License-Identifier: Apache-2.0
// The four plots of a group, over the same time.

import { el, setAttribute, setHidden, setProse, setText } from "./dom";
import type { History, Point } from "./history";
import { primaryOf, syncOf, type Merged } from "./model";
import { Plot, type Curve, type Spec } from "./plot";
import { bytes, clock, latency, percent, rate, seconds, span } from "./text";
import type { Forecast } from "./types";

const SPANS: readonly [string, number][] = [
  ["1 min", 60_000],
  ["5 min", 300_000],
  ["30 min", 1_800_000],
];
/** The present value of a plot, in words. */
type Now = (point: Point, group: Merged) => string;

const DASH = [5, 4];
const DOTS = [2, 3];

/** A dashed curve at the value of a forecast. */
function expected(
  label: string,
  colour: string,
  of: () => number | null | undefined,
  text: (value: number) => string,
  right = false,
): Curve {
  return { label: `forecast: ${label}`, colour, dash: DASH, right, text, value: () => of() ?? null, optional: true };
}

export class Plots {
  readonly root = el("div", { class: "plots" });
  private forecast: Forecast | null = null;
  /** The time under the cursor, to which the values of the legends belong. */
  private readonly at = el("span", { class: "muted at" });
  private span_ms = 300_000;
  private readonly plots: { plot: Plot; now: Now }[];
  private readonly spans = SPANS.map(([label, ms]) => {
    const button = el("button", { type: "button", class: "small", "aria-pressed": String(ms === this.span_ms) }, label);
    button.addEventListener("click", () => this.choose(ms));
    return { button, ms };
  });
  private last: { group: Merged; history: History } | null = null;

  constructor(name: string, sync: string) {
    const specs = [this.throughput(), this.latencies(), this.lag(), this.queue()];
    this.plots = specs.map(({ spec, now }) => ({ plot: new Plot(spec, sync, (at_ms) => this.point(at_ms)), now }));
    const choice = el("div", { class: "segments", role: "group", "aria-label": `Time that the plots of ${name} show` });
    choice.append(...this.spans.map(({ button }) => button));
    const grid = el("div", { class: "plot-grid" });
    grid.append(...this.plots.map(({ plot }) => plot.root));
    this.root.append(el("div", { class: "bar" }, el("h3", {}, "Measured"), this.at, choice), grid);
  }

  update(group: Merged, history: History): void {
    this.last = { group, history };
    this.forecast = group.forecast;
    const point = history.last();
    const mirrored = group.sides.some((side) => side.group?.peer);
    this.plots.forEach(({ plot, now }, at) => {
      // A group of one node has neither lag nor queue.
      setHidden(plot.root, !mirrored && at > 1);
      plot.update(history, this.span_ms, point === null ? "" : now(point, group));
    });
  }

  recolour(): void {
    for (const { plot } of this.plots) plot.recolour();
  }

  dispose(): void {
    for (const { plot } of this.plots) plot.dispose();
  }

  private point(at_ms: number | null): void {
    setText(this.at, at_ms === null ? "" : `at ${clock(at_ms)}`);
  }

  private choose(ms: number): void {
    this.span_ms = ms;
    for (const { button, ms: it } of this.spans) setAttribute(button, "aria-pressed", String(it === ms));
    if (this.last) this.update(this.last.group, this.last.history);
  }

  private throughput(): { spec: Spec; now: Now } {
    const curves: Curve[] = [
      { label: "written by clients", colour: "line-1", text: rate, value: (p) => p.written },
      { label: "sent", colour: "line-2", text: rate, value: (p) => p.sent },
      { label: "received", colour: "line-3", dash: DOTS, text: rate, value: (p) => p.received, optional: true },
      expected("sent", "line-2", () => this.forecast?.sent_bytes_per_second, rate),
    ];
    return { spec: { title: "Throughput", curves, binary: true, left: rate }, now: (p) => known(p.written, rate) };
  }

  private latencies(): { spec: Spec; now: Now } {
    const curves: Curve[] = [
      { label: "mean of writes and flushes, last interval", colour: "line-1", text: latency, value: (p) => p.mean },
      { label: "p50 since reset", colour: "line-2", dash: DOTS, text: latency, value: (p) => p.p50 },
      { label: "p99 since reset", colour: "line-3", dash: DOTS, text: latency, value: (p) => p.p99 },
      expected("p50", "line-2", () => this.forecast?.p50_us, latency),
      expected("p99", "line-3", () => this.forecast?.p99_us, latency),
    ];
    return {
      spec: { title: "Latency of writes", curves, binary: false, left: latency },
      now: (p) => known(p.mean, latency),
    };
  }

  private lag(): { spec: Spec; now: Now } {
    const curves: Curve[] = [
      { label: "bytes", colour: "line-1", text: bytes, value: (p) => p.lag },
      { label: "seconds", colour: "line-2", text: seconds, right: true, value: (p) => p.behind },
      expected("bytes", "line-1", () => this.forecast?.lag_bytes, bytes),
      expected("seconds", "line-2", () => this.forecast?.lag_seconds, seconds, true),
    ];
    return {
      spec: { title: "Lag", curves, binary: true, left: bytes, rightText: shortSeconds },
      now: (p) => (p.lag === 0 ? "0" : [known(p.lag, bytes), known(p.behind, seconds)].filter(Boolean).join(", ")),
    };
  }

  private queue(): { spec: Spec; now: Now } {
    const curves: Curve[] = [
      { label: "queue", colour: "line-1", text: bytes, value: (p) => p.queue },
      { label: "limit", colour: "bad", dash: DOTS, text: bytes, value: (p) => p.bound, optional: true },
      expected("most", "line-1", () => this.forecast?.queue_high_bytes, bytes),
    ];
    return { spec: { title: "Queue", curves, binary: true, left: bytes }, now: (_, group) => fullness(group) };
  }
}

/** The text of a value; empty if it is not known. */
function known(value: number | null | undefined, text: (value: number) => string): string {
  return value === null || value === undefined ? "" : text(value);
}

/** `18 %, full in 42 s`. */
function fullness(group: Merged): string {
  const queue = primaryOf(group)?.queue;
  if (!queue) return "";
  const share = Math.max(queue.bytes / queue.bound_bytes, queue.items / queue.bound_items);
  return `${percent(share, 1)}${known(group.forecast?.queue_full_seconds, (s) => `; full in ${span(s * 1000)}`)}`;
}

function shortSeconds(value: number): string {
  return value >= 1 || value === 0 ? `${Math.round(value * 10) / 10} s` : `${Math.round(value * 1000)} ms`;
}

/** The texts of a forecast and of what happens, for a table. */
export class ForecastTable {
  readonly root = el("section", { class: "forecast" });
  private readonly source = el("p", { class: "muted" });
  private readonly rows: { row: HTMLElement; expected: HTMLElement; now: HTMLElement }[] = [];
  private readonly body = el("tbody");
  private readonly table = el("table");

  constructor() {
    const head = el(
      "tr",
      {},
      el("th", { scope: "col" }, ""),
      el("th", { scope: "col" }, "forecast"),
      el("th", { scope: "col" }, "now"),
    );
    for (const label of LABELS) {
      const [expected, now] = [el("td"), el("td")];
      const row = el("tr", {}, el("th", { scope: "row" }, label), expected, now);
      this.body.append(row);
      this.rows.push({ row, expected, now });
    }
    this.table.append(el("thead", {}, head), this.body);
    this.root.append(el("h3", {}, "Forecast"), this.table, this.source);
  }

  update(group: Merged, history: History): void {
    const { forecast } = group;
    setHidden(this.root, forecast === null);
    if (forecast === null) return;
    setProse(this.source, `Source: ${forecast.source}`);
    const now = history.last();
    const sync = syncOf(group);
    const primary = primaryOf(group);
    const pairs: [string, string][] = [
      [known(forecast.p50_us, latency), known(now?.p50, latency)],
      [known(forecast.p99_us, latency), known(now?.p99, latency)],
      [known(forecast.lag_bytes, bytes), known(now?.lag, bytes)],
      [known(forecast.lag_seconds, seconds), known(now?.behind, seconds)],
      [known(forecast.sent_bytes_per_second, rate), known(now?.sent, rate)],
      [known(forecast.queue_high_bytes, bytes), known(primary?.queue?.bytes_high_water, bytes)],
      [
        known(forecast.queue_full_seconds, (s) => `in ${span(s * 1000)}`),
        known(now?.queue, (queue) => percent(queue, now?.bound ?? 0)),
      ],
      [
        known(forecast.catch_up_seconds, (s) => `in ${seconds(s)}`),
        known(sync?.eta_seconds, (s) => `in ${seconds(s)}`),
      ],
      [
        forecast.converges === null ? "" : forecast.converges ? "yes" : "no, at this write rate",
        sync ? (sync.converges ? "yes" : "no") : "",
      ],
    ];
    setHidden(
      this.table,
      pairs.every(([expected]) => expected === ""),
    );
    pairs.forEach(([expected, measured], at) => {
      const row = this.rows[at];
      if (!row) return;
      setHidden(row.row, expected === "");
      setText(row.expected, expected);
      setText(row.now, measured || "–");
    });
  }
}

const LABELS = [
  "latency p50",
  "latency p99",
  "lag",
  "lag in time",
  "sent",
  "queue, most",
  "queue full",
  "caught up",
  "resync converges",
];
