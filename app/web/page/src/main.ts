// SPDX-License-Identifier: Apache-2.0
// The page: it follows the events of the server, and shows each view.

import "./style.css";
import { Dialogs } from "./dialog";
import { el, Rows, setAttribute, setHidden, setProse, setText } from "./dom";
import { GroupSection, setTone, setVerdict, type Shown } from "./group";
import { Guide } from "./guide";
import { Clock, gap } from "./history";
import { Live, type Liveness } from "./live";
import { Messages } from "./messages";
import { absent, current, isOld, merge, nodeName, offersOf, worst, type Merged } from "./model";
import { allLost, SimulationBar } from "./simulate";
import { clean, rank, title } from "./text";
import { theme } from "./theme";
import { Timeline } from "./timeline";
import type { NodeView, View } from "./types";

/** If there are more groups, only those that are not OK are open at first. */
const OPEN_MOST = 2;

function find<E extends HTMLElement>(name: string, kind: new () => E): E {
  const element = document.getElementById(name);
  if (!(element instanceof kind)) throw new Error(`index.html has no ${name}`);
  return element;
}

function setTitle(headline: string): void {
  const shown = clean(`${headline} · helio`);
  if (document.title !== shown) document.title = shown;
}

class Page {
  private readonly verdict = find("verdict", HTMLElement);
  private readonly silent = find("silent", HTMLElement);
  private readonly live = find("live", HTMLElement);
  private readonly announced = find("announced", HTMLElement);
  private readonly overview = find("overview", HTMLElement);
  private readonly groups = find("groups", HTMLElement);
  private readonly waiting = find("waiting", HTMLElement);
  private readonly messages = new Messages();
  private readonly timeline = new Timeline();
  private readonly guide = new Guide();
  private readonly clock = new Clock();
  private readonly link = new Live({
    view: (view) => this.view(current(view)),
    happening: (happening) => this.timeline.take(happening),
    liveness: (liveness) => this.liveness(liveness),
  });
  private readonly dialogs = new Dialogs(
    this.messages,
    () => this.link.isLive(),
    ({ index, group }) => this.home(index, group),
  );
  private readonly bar = new SimulationBar(this.messages, (asked) => this.dialogs.ask(asked));
  private readonly rows: Rows<Shown>;
  private readonly chips: Rows<Merged>;
  private readonly views = new Map<string, GroupSection>();
  /** The last verdict by the name of its group. */
  private readonly words = new Map<string, string>();
  private merged: Merged[] = [];
  /** What is announced at the end of this task. */
  private texts: string[] = [];
  /** Whether the status of a node is old. */
  private old = false;
  private paused = false;
  /** Virtual time of the last view. */
  private time_ms = 0;
  private last: Liveness["kind"] = "connecting";
  private several = false;
  private headline = "";
  private readonly problems = new Rows<NodeView>(find("problems", HTMLElement), () => {
    const [text, hint] = [el("span"), el("span", { class: "muted" })];
    return {
      root: el("li", {}, text, " ", hint),
      update: (node) => {
        setProse(text, `${absent(node)}: ${node.error?.error ?? ""}`);
        setProse(hint, node.error?.hint ? `hint: ${node.error.hint}` : "");
      },
    };
  });

  constructor() {
    const simulation = find("simulation", HTMLElement);
    simulation.append(this.bar.root, this.guide.root);
    find("side", HTMLElement).append(this.timeline.root);
    document.body.append(this.messages.root);
    this.rows = new Rows(this.groups, (key, { merged }) => this.make(key, merged));
    this.chips = new Rows(this.overview, (key) => this.chip(key));
    theme(find("theme", HTMLSelectElement), () => this.recolour());
    document.addEventListener("visibilitychange", () => {
      for (const view of this.views.values()) view.refresh();
    });
    this.link.start();
  }

  private make(key: string, merged: Merged): GroupSection {
    const view = new GroupSection(merged.name, key, (asked) => this.dialogs.ask(asked), !this.several || merged.word !== "ok");
    this.views.set(key, view);
    return view;
  }

  /** A link to a group, with its verdict. */
  private chip(key: string) {
    const [name, verdict] = [el("span"), el("span")];
    const link = el("a", {}, name, verdict);
    return {
      root: el("li", {}, link),
      update: (merged: Merged) => {
        setAttribute(link, "href", `#${this.views.get(key)?.anchor ?? ""}`);
        setText(name, merged.name);
        setVerdict(verdict, merged.word);
      },
    };
  }

  private recolour(): void {
    for (const view of this.views.values()) view.recolour();
  }

  private view(view: View): void {
    const all = merge(view);
    const merged = allLost(view.simulation) ? all.map((group) => ({ ...group, next: [], choices: [] })) : all;
    this.merged = merged;
    const at = this.clock.at(view, performance.now());
    this.several = merged.length > OPEN_MOST;
    this.rows.update(merged.map((group) => [group.key, { merged: group, at, gap_ms: gap(view) }]));
    const keys = new Set(merged.map(({ key }) => key));
    for (const key of [...this.views.keys()].filter((it) => !keys.has(it))) this.views.delete(key);
    this.chips.update(merged.map((group) => [group.key, group]));
    setHidden(this.overview, merged.length < 2);
    setHidden(this.waiting, merged.length > 0);
    if (merged.length === 0)
      setText(
        this.waiting,
        view.nodes.every((node) => node.status === null) ? "No node has responded yet." : "The nodes are in no group.",
      );
    this.head(view, merged);
    this.announceVerdicts(merged);
    const isUp = (index: number) => view.nodes[index]?.error === null;
    this.dialogs.update(({ index, group, offer, ofHint }) => {
      if (ofHint) return isUp(index) ? offer : null;
      return offersOf(view.nodes[index], group).find((it) => it.action === offer.action) ?? null;
    });
    this.messages.update(isUp);
    this.timeline.update(view.nodes.map(nodeName), view.simulation !== null);
    this.simulate(view, merged, at);
  }

  private simulate(view: View, merged: Merged[], at: number | null): void {
    const { simulation } = view;
    this.paused = simulation?.speed === 0;
    setHidden(find("simulation", HTMLElement), simulation === null);
    if (simulation === null) return;
    if (simulation.time_ms < this.time_ms && at !== null) this.timeline.forget(at);
    this.time_ms = simulation.time_ms;
    this.bar.update(simulation, merged);
    this.guide.update(view, merged, (group) => this.views.get(group.key)?.mean() ?? null);
  }

  private head(view: View, merged: Merged[]): void {
    const found = worst(merged);
    const names = found?.groups.map(({ name }) => name).join(", ") ?? "";
    const away = view.nodes.filter((node) => node.error !== null);
    this.old = away.some(isOld);
    const word = found?.word ?? (away.length > 0 ? "unknown" : null);
    setTone(this.verdict, word ?? "unknown");
    this.headline = word === null ? "no group" : names === "" ? title(word) : `${title(word)}: ${names}`;
    setText(this.verdict, this.headline);
    const first = found ? this.views.get(found.groups[0]?.key ?? "") : undefined;
    setAttribute(this.verdict, "href", first ? `#${first.anchor}` : null);
    setTitle(this.headline);
    setText(this.silent, away.map((node) => absent(node)).join("; "));
    setHidden(this.silent, away.length === 0);
    this.problems.update(away.map((node) => [String(view.nodes.indexOf(node)), node]));
  }

  /** The section of a group. */
  private home(index: number, group: string): HTMLElement | null {
    const same = this.merged.filter((it) => it.name === group);
    const found = same.find((it) => it.sides.some((side) => side.index === index)) ?? same[0];
    return this.views.get(found?.key ?? "")?.root ?? null;
  }

  /** A changed verdict is read out; nothing else of a view is. The nodes of a group may change while it keeps its name. */
  private announceVerdicts(merged: Merged[]): void {
    const groups = new Map<string, Merged>();
    for (const group of merged) {
      const other = groups.get(group.name);
      if (other === undefined || rank(group.word) < rank(other.word)) groups.set(group.name, group);
    }
    for (const [name, { word, why }] of groups) {
      const before = this.words.get(name);
      if (before !== undefined && before !== word) this.announce(`${name}: ${title(word)}: ${why}`);
      this.words.set(name, word);
    }
  }

  /** All texts of one task are one announcement: a second one would replace the first before it is read out. */
  private announce(text: string): void {
    this.texts.push(text);
    if (this.texts.length > 1) return;
    queueMicrotask(() => {
      setText(this.announced, this.texts.join(". "));
      this.texts = [];
    });
  }

  /** Marks the last verdict as old. */
  private showStale(): void {
    setTone(this.verdict, "unknown");
    setText(this.verdict, `last: ${this.headline}`);
    setTitle(`NOT LIVE, last ${this.headline}`);
  }

  private liveness(liveness: Liveness): void {
    const { kind } = liveness;
    const text = {
      connecting: () => "connecting",
      live: () => (this.old ? "a status is old" : this.paused ? "paused" : "live"),
      silent: (seconds: number) => `no response for ${seconds} s`,
      gone: (seconds: number) => `helio dashboard ended ${seconds} s ago`,
      broken: () => "this page cannot show the last update",
    }[kind]("seconds" in liveness ? liveness.seconds : 0);
    setText(this.live, text);
    setAttribute(this.live, "title", kind === "broken" ? liveness.why : null);
    const stale = kind === "silent" || kind === "gone" || kind === "broken";
    if (stale) this.showStale();
    setAttribute(this.live, "class", `live ${stale ? "bad" : kind === "live" && !this.paused && !this.old ? "ok" : "unknown"}`);
    setAttribute(document.body, "class", stale ? "stale" : null);
    if (kind !== this.last) {
      if (stale) this.announce(`The page is not live: ${text}. It shows the last values.`);
      else if (kind === "live" && this.last !== "connecting") this.announce("The page is live again.");
      this.last = kind;
    }
  }
}

new Page();
