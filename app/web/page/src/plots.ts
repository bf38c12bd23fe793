// SPDX-License-Identifier: Apache-2.0
// The four plots of a group, over the same time.

import { el, setAttribute, setHidden, setProse, setText } from "./dom";
import type { History, Point } from "./history";
import { leads, responds, type Merged } from "./model";
import { Plot, type Line, type Spec } from "./plot";
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

/** A dashed line at the value of a forecast. */
function expected(
  label: string,
  colour: string,
  of: () => number | null | undefined,
  text: (value: number) => string,
  right = false,
): Line {
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
    const lines: Line[] = [
      { label: "written by clients", colour: "line-1", text: rate, value: (p) => p.written },
      { label: "sent", colour: "line-2", text: rate, value: (p) => p.sent },
      { label: "received", colour: "line-3", dash: DOTS, text: rate, value: (p) => p.received, optional: true },
      expected("sent", "line-2", () => this.forecast?.sent_bytes_per_second, rate),
    ];
    return { spec: { title: "Throughput", lines, binary: true, left: rate }, now: (p) => known(p.written, rate) };
  }

  private latencies(): { spec: Spec; now: Now } {
    const lines: Line[] = [
      { label: "mean of writes and flushes, last interval", colour: "line-1", text: latency, value: (p) => p.mean },
      { label: "p50 since reset", colour: "line-2", dash: DOTS, text: latency, value: (p) => p.p50 },
      { label: "p99 since reset", colour: "line-3", dash: DOTS, text: latency, value: (p) => p.p99 },
      expected("p50", "line-2", () => this.forecast?.p50_us, latency),
      expected("p99", "line-3", () => this.forecast?.p99_us, latency),
    ];
    return {
      spec: { title: "Latency of writes", lines, binary: false, left: latency },
      now: (p) => known(p.mean, latency),
    };
  }

  private lag(): { spec: Spec; now: Now } {
    const lines: Line[] = [
      { label: "bytes", colour: "line-1", text: bytes, value: (p) => p.lag },
      { label: "seconds", colour: "line-2", text: seconds, right: true, value: (p) => p.behind },
      expected("bytes", "line-1", () => this.forecast?.lag_bytes, bytes),
      expected("seconds", "line-2", () => this.forecast?.lag_seconds, seconds, true),
    ];
    return {
      spec: { title: "Lag", lines, binary: true, left: bytes, rightText: shortSeconds },
      now: (p) => (p.lag === 0 ? "0" : [known(p.lag, bytes), known(p.behind, seconds)].filter(Boolean).join(", ")),
    };
  }

  private queue(): { spec: Spec; now: Now } {
    const lines: Line[] = [
      { label: "queue", colour: "line-1", text: bytes, value: (p) => p.queue },
      { label: "limit", colour: "bad", dash: DOTS, text: bytes, value: (p) => p.bound, optional: true },
      expected("most", "line-1", () => this.forecast?.queue_high_bytes, bytes),
    ];
    return { spec: { title: "Queue", lines, binary: true, left: bytes }, now: (_, group) => fullness(group) };
  }
}

function known(value: number | null, text: (value: number) => string): string {
  return value === null ? "" : text(value);
}

/** `18 %, full in 42 s`. */
function fullness(group: Merged): string {
  const queue = group.sides.find(leads)?.group?.queue;
  if (!queue) return "";
  const share = Math.max(queue.bytes / queue.bound_bytes, queue.items / queue.bound_items);
  const full = group.forecast?.queue_full_seconds;
  const when = full === null || full === undefined ? "" : `; full in ${span(full * 1000)}`;
  return `${percent(share, 1)}${when}`;
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
    const shown = (value: number | null | undefined, text: (value: number) => string) =>
      value === null || value === undefined ? null : text(value);
    const sync = group.sides.filter(responds).find((side) => side.group?.sync)?.group?.sync;
    const primary = group.sides.find(leads)?.group;
    const pairs: [string | null, string | null][] = [
      [shown(forecast.p50_us, latency), shown(now?.p50, latency)],
      [shown(forecast.p99_us, latency), shown(now?.p99, latency)],
      [shown(forecast.lag_bytes, bytes), shown(now?.lag, bytes)],
      [shown(forecast.lag_seconds, seconds), shown(now?.behind, seconds)],
      [shown(forecast.sent_bytes_per_second, rate), shown(now?.sent, rate)],
      [shown(forecast.queue_high_bytes, bytes), shown(primary?.queue?.bytes_high_water, bytes)],
      [
        shown(forecast.queue_full_seconds, (s) => `in ${span(s * 1000)}`),
        shown(now?.queue, (queue) => percent(queue, now?.bound ?? 0)),
      ],
      [
        shown(forecast.catch_up_seconds, (s) => `in ${seconds(s)}`),
        shown(sync?.eta_seconds, (s) => `in ${seconds(s)}`),
      ],
      [
        forecast.converges === null ? null : forecast.converges ? "yes" : "no, at this write rate",
        sync ? (sync.converges ? "yes" : "no") : null,
      ],
    ];
    setHidden(
      this.table,
      pairs.every(([expected]) => expected === null),
    );
    pairs.forEach(([expected, measured], at) => {
      const row = this.rows[at];
      if (!row) return;
      setHidden(row.row, expected === null);
      setText(row.expected, expected ?? "");
      setText(row.now, measured ?? "–");
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
