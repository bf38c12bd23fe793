// SPDX-License-Identifier: Apache-2.0
// Five steps for the first minutes with a simulated pair. A step is done when what it names happened, by a button of this page or by a command.

import { el, setAttribute, setText } from "./dom";
import { isPrimary, primaryOf, type Merged } from "./model";
import type { View } from "./types";

/** What the steps look at. */
interface Observed {
  merged: Merged;
  link_up: boolean;
  mode: string;
  /** Latency of the last second. */
  mean_us: number | null;
  rtt_ms: number;
  /** Names of the primaries that respond. */
  primaries: string[];
  running: boolean;
}

const STEPS: readonly (readonly [string, string])[] = [
  ["Cut the link", "The clients go on, and the lag grows."],
  ["Restore the link", "The verdict is OK again when the other node has all writes."],
  ["Select mode sync and a round trip of 20 ms or more", "Each write then takes at least one round trip."],
  ["Kill the primary, then fail over", "The clients go on at the other node."],
  [
    "Start the killed node, and do what the page advises",
    "The verdict is OK again when both nodes have the same data.",
  ],
];

export class Guide {
  readonly root = el("details", { class: "guide" });
  private readonly items = STEPS.map(([what, then]) => {
    const [mark, state] = [
      el("span", { class: "mark", "aria-hidden": "true" }),
      el("span", { class: "visually-hidden" }),
    ];
    return {
      root: el(
        "li",
        {},
        mark,
        el("span", {}, el("strong", {}, what), " ", el("span", { class: "then" }, then), " ", state),
      ),
      mark,
      state,
    };
  });
  private readonly summary = el("summary");
  private done = STEPS.map(() => false);
  private lag_at_cut: number | null = null;
  private first: string | null = null;
  private time_ms = 0;

  constructor() {
    this.root.open = true;
    const list = el("ol");
    list.append(...this.items.map(({ root }) => root));
    this.root.append(this.summary, list);
  }

  update(view: View, groups: readonly Merged[], mean_us: (group: Merged) => number | null): void {
    const { simulation } = view;
    const merged = groups[0];
    if (simulation === null || merged === undefined) return;
    // A new pair: its first primary is another one, perhaps.
    if (simulation.time_ms < this.time_ms) this.first = this.lag_at_cut = null;
    this.time_ms = simulation.time_ms;
    this.look({
      merged,
      link_up: simulation.link_up,
      mode: primaryOf(merged)?.mode.effective ?? "",
      mean_us: mean_us(merged),
      rtt_ms: simulation.settings.rtt_ms,
      primaries: merged.sides.filter(isPrimary).map(({ name }) => name),
      running: simulation.nodes.every((node) => node.running),
    });
    this.show();
  }

  private look(facts: Observed): void {
    const [cut, restored, slow, over] = this.done;
    const well = facts.merged.word === "ok" && facts.link_up && facts.running;
    const lag = primaryOf(facts.merged)?.lag.bytes ?? 0;
    if (facts.link_up) this.lag_at_cut = null;
    else this.lag_at_cut ??= lag;
    this.first ??= facts.primaries[0] ?? null;
    const another = facts.primaries.some((name) => name !== this.first);
    this.done = [
      cut || (this.lag_at_cut !== null && lag > this.lag_at_cut),
      restored || (cut === true && well),
      slow || (facts.mode === "sync" && facts.rtt_ms >= 20 && (facts.mean_us ?? 0) >= facts.rtt_ms * 1000),
      over || (another && this.first !== null),
      this.done[4] || (over === true && well),
    ].map((it) => it === true);
  }

  private show(): void {
    const number = this.done.filter((it) => it).length;
    setText(this.summary, `First steps: ${number} of ${STEPS.length} done`);
    const next = this.done.indexOf(false);
    this.items.forEach(({ root, mark, state }, at) => {
      const done = this.done[at] === true;
      setAttribute(root, "class", done ? "done" : at === next ? "now" : null);
      setText(mark, done ? "✓" : String(at + 1));
      setText(state, done ? "Done." : "");
    });
  }
}
