// SPDX-License-Identifier: Apache-2.0
// One plot: curves over time, a cursor shared with the other plots of its group, and a legend in text.

import uPlot from "uplot";
import { el, setHidden, setText, svg } from "./dom";
import type { History, Point } from "./history";
import { clock } from "./text";
import { colour } from "./theme";

export interface Curve {
  label: string;
  /** Name of a colour of the style sheet. */
  colour: string;
  dash?: number[];
  /** The scale of the right axis; without it, the left one. */
  right?: boolean;
  text: (value: number) => string;
  /** The value of a point; for a forecast and a bound, the same for all. */
  value: (point: Point) => number | null;
  /** Hidden from plot and legend while the value is null everywhere. */
  optional?: boolean;
}

export interface Spec {
  title: string;
  curves: Curve[];
  /** Steps of the left axis are powers of two. */
  binary: boolean;
  left: (value: number) => string;
  rightText?: (value: number) => string;
}

const HEIGHT = 148;
/** So few points are drawn each time. */
const SPARSE = 100;
/** Steps of the time axis, in seconds. */
const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 86_400];
const BINARY = Array.from({ length: 55 }, (_, at) => 2 ** at);
const DECIMAL = Array.from({ length: 45 }, (_, at) => [1, 2, 5][at % 3]! * 10 ** Math.floor(at / 3 - 6));

export class Plot {
  readonly root = el("figure", { class: "plot" });
  private readonly now = el("span", { class: "now-value" });
  private readonly box = el("div", { class: "canvas", "aria-hidden": "true" });
  private readonly legend = el("ul", { class: "legend" });
  private readonly values: HTMLElement[];
  private readonly entries: HTMLElement[];
  private readonly observer = new ResizeObserver(([entry]) => this.resize(entry?.contentRect.width ?? 0));
  private readonly looker = new IntersectionObserver((entries) => this.look(entries.at(-1)?.isIntersecting ?? true));
  /** Width of the box, and whether it is on the screen: reading them during an update would make the browser lay out the page. */
  private width = 0;
  private seen = true;
  private uplot: uPlot | null = null;
  private history: History | null = null;
  private span_ms = 0;
  /** What the plot shows; it is drawn again when it would move by a pixel. */
  private drawn: { data: (number | null)[][]; times: number[]; span_ms: number } | null = null;

  constructor(
    private readonly spec: Spec,
    private readonly sync: string,
    /** Called with the time under the cursor, in milliseconds since 1970; null if there is none. */
    private readonly pointed: (at_ms: number | null) => void,
  ) {
    this.values = spec.curves.map(() => el("span", { class: "value" }));
    this.entries = spec.curves.map((curve, at) => {
      const entry = el("li", {}, swatch(curve), el("span", {}, curve.label), this.values[at] ?? "");
      this.legend.append(entry);
      setHidden(entry, curve.optional === true);
      return entry;
    });
    this.root.append(el("figcaption", {}, el("h4", {}, spec.title), this.now), this.box, this.legend);
    this.observer.observe(this.box);
    this.looker.observe(this.box);
  }

  /** Shows the points of the last `span_ms`; draws them if they can be seen. `now`: the present value, in words. */
  update(history: History, span_ms: number, now: string): void {
    this.history = history;
    this.span_ms = span_ms;
    setText(this.now, now);
    this.draw();
    this.showValues(this.uplot?.cursor.idx ?? null);
  }

  /** Draws again with the present colours. */
  recolour(): void {
    this.uplot?.destroy();
    this.uplot = this.drawn = null;
    this.draw();
  }

  dispose(): void {
    this.observer.disconnect();
    this.looker.disconnect();
    this.uplot?.destroy();
    this.uplot = null;
  }

  private draw(): void {
    const { span_ms, drawn, history, width } = this;
    const end_ms = history?.times.at(-1);
    if (document.hidden || !history || end_ms === undefined) return;
    if (!this.seen || width === 0) {
      // The legend is part of the text of the page, wherever the plot is.
      this.showEntries(history.points.slice(history.from(span_ms)));
      return;
    }
    const end = end_ms / 1000;
    const moved = end - (drawn?.times.at(-1) ?? -Infinity);
    if (drawn?.span_ms === span_ms && drawn.times.length > SPARSE && moved > 0 && moved < span_ms / 1000 / width)
      return;
    const from = history.from(span_ms);
    const points = history.points.slice(from);
    const times = history.times.slice(from).map((ms) => ms / 1000);
    const data = this.spec.curves.map((curve) => points.map(curve.value));
    this.drawn = { data, times, span_ms };
    this.uplot ??= new uPlot(this.options(), undefined, this.box);
    const shown = this.showEntries(points);
    this.uplot.batch((plot: uPlot) => {
      shown.forEach((show, at) => {
        if (plot.series[at + 1]?.show !== show) plot.setSeries(at + 1, { show });
      });
      plot.setData([times, ...data], false);
      plot.setScale("x", { min: end - span_ms / 1000, max: end });
    });
  }

  /** Shows the curves that have a value in the legend. Returns which have one. */
  private showEntries(points: readonly Point[]): boolean[] {
    return this.spec.curves.map((curve, at) => {
      const shown = !curve.optional || points.some((point) => curve.value(point) !== null);
      const entry = this.entries[at];
      if (entry) setHidden(entry, !shown);
      return shown;
    });
  }

  private resize(width: number): void {
    this.width = Math.round(width);
    if (this.width > 0 && this.uplot !== null && this.uplot.width !== this.width)
      this.uplot.setSize({ width: this.width, height: HEIGHT });
    if (this.uplot === null) this.draw();
  }

  private look(seen: boolean): void {
    this.seen = seen;
    this.draw();
  }

  private point(index: number | null): void {
    this.showValues(index);
    const at = index === null ? undefined : this.drawn?.times[index];
    this.pointed(at === undefined ? null : at * 1000);
  }

  private showValues(index: number | null): void {
    this.spec.curves.forEach((curve, at) => {
      const last = this.history?.last();
      const value = index === null ? last && curve.value(last) : this.drawn?.data[at]?.[index];
      const element = this.values[at];
      if (element) setText(element, value === null || value === undefined ? "–" : curve.text(value));
    });
  }

  private options(): uPlot.Options {
    const { spec } = this;
    const ink = colour("muted");
    const axis = { stroke: ink, font: "11px system-ui, sans-serif", ticks: { show: false }, gap: 4 };
    const grid = { stroke: colour("grid"), width: 1 };
    const text = (format: (value: number) => string) => (_: uPlot, values: number[]) => values.map(format);
    const fromZero = (_: uPlot, _least: number | null, most: number | null): [number, number] => [
      0,
      most ? most * 1.08 : 1,
    ];
    const axes: uPlot.Axis[] = [
      {
        ...axis,
        grid: { show: false },
        size: 28,
        gap: 8,
        space: 76,
        incrs: TIMES,
        values: (_, times) => times.map((s) => clock(s * 1000)),
      },
      {
        ...axis,
        grid,
        size: 66,
        space: 34,
        scale: "y",
        incrs: spec.binary ? BINARY : DECIMAL,
        values: text(spec.left),
      },
    ];
    if (spec.rightText) {
      axes.push({
        ...axis,
        grid: { show: false },
        side: 1,
        size: 48,
        space: 34,
        scale: "right",
        incrs: DECIMAL,
        values: text(spec.rightText),
      });
    }
    return {
      width: this.width,
      height: HEIGHT,
      padding: [10, spec.rightText ? 0 : 8, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, sync: { key: this.sync }, y: false, points: { size: 6 } },
      scales: {
        x: { time: true },
        y: { range: fromZero },
        ...(spec.rightText ? { right: { range: fromZero } } : {}),
      },
      axes,
      series: [{}, ...spec.curves.map(series)],
      hooks: { setCursor: [(plot) => this.point(plot.cursor.idx ?? null)] },
    };
  }
}

function series(curve: Curve): uPlot.Series {
  return {
    label: curve.label,
    scale: curve.right ? "right" : "y",
    stroke: colour(curve.colour),
    width: curve.dash ? 1.25 : 1.75,
    ...(curve.dash ? { dash: curve.dash } : {}),
    points: { show: false },
    spanGaps: false,
  };
}

function swatch(curve: Curve): Element {
  const drawn = svg("line", { x1: "0", y1: "5", x2: "20", y2: "5", "stroke-width": curve.dash ? "1.5" : "2.5" });
  drawn.style.stroke = `var(--${curve.colour})`;
  if (curve.dash) drawn.setAttribute("stroke-dasharray", curve.dash.join(" "));
  return svg("svg", { class: "swatch", width: "20", height: "10", "aria-hidden": "true" }, drawn);
}
