// SPDX-License-Identifier: Apache-2.0
// One group on the page.

import { Actions, Next, type Ask } from "./actions";
import { el, id, Rows, setAttribute, setHidden, setProse, setText, type Row } from "./dom";
import { Facts, progress } from "./facts";
import { History } from "./history";
import { copiedShare, syncOf, type Kept, type Merged } from "./model";
import { ForecastTable, Plots } from "./plots";
import { bytes, moment, since, title, tone } from "./text";
import { Topology } from "./topology";
import type { Advice } from "./types";

/** What is drawn of a group after a view. */
export interface Shown {
  merged: Merged;
  /** Time of the view for the plots; null before any node responded. */
  at: number | null;
  gap_ms: number;
}

/** The verdict in words, with its colour and sign. */
export function setVerdict(element: HTMLElement, word: string): void {
  setText(element, title(word));
  setTone(element, word);
}

/** Its colour and sign alone. */
export function setTone(element: HTMLElement, word: string): void {
  setAttribute(element, "class", `verdict ${tone(word)}`);
}

export class GroupSection implements Row<Shown> {
  readonly root = el("section", { class: "group" });
  readonly anchor = id();
  private readonly history = new History();
  private readonly verdict = el("span");
  private readonly why = el("p", { class: "why" });
  private readonly since = el("span", { class: "since muted" });
  private readonly toggle = el("button", { type: "button", class: "small" });
  private readonly body = el("div", { class: "group-body" });
  private readonly next: Next;
  /** Made when they are opened first: many groups stay closed. */
  private details: Details | null = null;
  private merged: Merged | null = null;

  constructor(
    private readonly name: string,
    key: string,
    private readonly ask: Ask,
    open: boolean,
  ) {
    const heading = id();
    this.root.id = this.anchor;
    this.root.tabIndex = -1;
    this.root.setAttribute("aria-labelledby", heading);
    this.next = new Next(ask, key);
    const bodyId = id();
    this.body.id = bodyId;
    this.toggle.setAttribute("aria-controls", bodyId);
    this.toggle.addEventListener("click", () => this.open(this.body.hidden !== false));
    const titleLine = el(
      "div",
      { class: "title" },
      el("h2", { id: heading }, name),
      this.verdict,
      this.since,
      this.toggle,
    );
    this.root.append(el("header", {}, titleLine, this.why, this.next.root), this.body);
    this.open(open);
  }

  private open(open: boolean): void {
    setHidden(this.body, !open);
    this.toggle.setAttribute("aria-expanded", String(open));
    setText(this.toggle, open ? "Hide details" : "Details");
    if (open) this.details ??= new Details(this.name, this.anchor, this.ask, this.body);
    this.refresh();
  }

  update({ merged, at, gap_ms }: Shown): void {
    this.merged = merged;
    if (at !== null) this.history.take(merged, at, gap_ms);
    this.refresh();
  }

  /** Shows the last view, if the page can be seen. */
  refresh(): void {
    const { merged } = this;
    if (merged === null || document.hidden) return;
    setVerdict(this.verdict, merged.word);
    setProse(this.why, merged.why);
    setText(this.since, merged.since_ms === null ? "" : since(merged.since_ms, merged.now_ms));
    this.next.update(merged);
    if (!this.body.hidden) this.details?.update(merged, this.history);
  }

  /** Draws the plots again, after the colours changed. */
  recolour(): void {
    this.details?.recolour();
  }

  dispose(): void {
    this.details?.dispose();
  }

  mean(): number | null {
    return this.history.last()?.mean ?? null;
  }
}

/** What an open group shows below its verdict. */
class Details {
  private readonly topology = new Topology();
  private readonly facts = new Facts();
  private readonly actions: Actions;
  private readonly plots: Plots;
  private readonly forecast = new ForecastTable();
  private readonly resync = new Resync();
  private readonly advice = new AdviceList();
  private readonly snapshots = new Snapshots();

  constructor(name: string, anchor: string, ask: Ask, body: HTMLElement) {
    this.actions = new Actions(ask);
    this.plots = new Plots(name, anchor);
    const left = el("div", { class: "left" }, this.topology.root, this.resync.root, this.facts.root, this.actions.root);
    const below = el(
      "div",
      { class: "below" },
      this.forecast.root,
      el("div", {}, this.advice.root, this.snapshots.root),
    );
    body.append(left, this.plots.root, below);
  }

  update(merged: Merged, history: History): void {
    this.topology.update(merged, history.last());
    this.resync.update(merged);
    this.facts.update(merged);
    this.actions.update(merged);
    this.plots.update(merged, history);
    this.forecast.update(merged, history);
    this.advice.update(merged.forecast?.advice ?? []);
    this.snapshots.update(merged.snapshots);
  }

  recolour(): void {
    this.plots.recolour();
  }

  dispose(): void {
    this.plots.dispose();
    this.topology.dispose();
  }
}

/** A running resync: its bar, and when it ends. */
class Resync {
  readonly root = el("section", { class: "resync" });
  private readonly bar = el("progress", { max: "1", "aria-label": "resync" });
  private readonly text = el("p");

  constructor() {
    this.root.append(el("h3", {}, "Resync"), this.bar, this.text);
  }

  update(merged: Merged): void {
    const sync = syncOf(merged);
    // A resync that has not begun has no end to show.
    const runs = sync && (sync.copied_bytes > 0 || sync.rate_bytes_per_second > 0 || sync.eta_seconds !== null);
    setHidden(this.root, !runs);
    if (!sync || !runs) return;
    this.bar.value = copiedShare(sync);
    setText(this.text, progress(sync));
    setAttribute(this.text, "class", sync.converges ? null : "warn");
  }
}

/** What the forecast advises about the configuration. */
class AdviceList {
  readonly root = el("section", { class: "advice" });
  private readonly list = el("ul");
  private readonly rows = new Rows<Advice>(this.list, () => {
    const [verdict, label, what, todo] = [el("span"), el("strong"), el("span"), el("span", { class: "todo" })];
    return {
      root: el("li", {}, verdict, el("span", {}, label, " ", what, " ", todo)),
      update: (advice) => {
        setText(verdict, advice.verdict);
        setAttribute(
          verdict,
          "class",
          `word ${{ change: "bad", watch: "risk", well: "ok" }[advice.verdict] ?? "unknown"}`,
        );
        setText(label, `${advice.label}:`);
        setProse(what, advice.what);
        setProse(todo, advice.do ?? "");
      },
    };
  });

  constructor() {
    this.root.append(el("h3", {}, "Advice"), this.list);
  }

  update(advice: Advice[]): void {
    setHidden(this.root, advice.length === 0);
    this.rows.update(advice.map((it, at) => [`${at} ${it.label}`, it]));
  }
}

class Snapshots {
  readonly root = el("section", { class: "snapshots" });
  private readonly body = el("tbody");
  private readonly rows = new Rows<Kept>(this.body, () => {
    const [name, time, nodes] = [el("th", { scope: "row" }), el("td"), el("td")];
    return {
      root: el("tr", {}, name, time, nodes),
      update: (kept) => {
        setText(name, kept.name);
        setText(time, moment(kept.at_ms));
        const on = kept.on.map(({ node, snapshot }) =>
          snapshot.missing === null
            ? `${bytes(snapshot.preserved_bytes)} on ${node}${snapshot.consistent ? "" : ", inconsistent"}`
            : `missing on ${node}: ${snapshot.missing}`,
        );
        setText(nodes, on.join("; "));
      },
    };
  });

  constructor() {
    const heads = ["snapshot", "time", "preserved"].map((text) => el("th", { scope: "col" }, text));
    this.root.append(el("h3", {}, "Snapshots"), el("table", {}, el("thead", {}, el("tr", {}, ...heads)), this.body));
  }

  update(snapshots: Kept[]): void {
    setHidden(this.root, snapshots.length === 0);
    this.rows.update(snapshots.map((kept) => [JSON.stringify([kept.name, kept.at_ms]), kept]));
  }
}
