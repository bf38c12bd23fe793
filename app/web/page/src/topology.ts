// SPDX-License-Identifier: Apache-2.0
// The nodes of a group and the link between them: a drawing, and the same as a list for screen readers.

import { el, Rows, setAttribute, setHidden, setText, svg, type Row } from "./dom";
import type { Point } from "./history";
import { copiedShare, isPrimary, responds, syncOf, type Merged, type Side } from "./model";
import { bytes, clean, coarse, count, fitted, latency, percent, rate } from "./text";
import type { Group, Volume } from "./types";

/** Rows for disks in a card; further ones are counted. */
const DISKS = 4;
const ROW = 19;
const PAD = 12;
/** The line of a link is at most so far below the top of the cards. */
const LINE_AT = 40;
/** Space for the clients above a card. */
const CLIENTS = 30;
/** Below this width the nodes stand below each other. */
const NARROW = 560;
const FAMILY = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
const PLAIN = `12.5px ${FAMILY}`;
const BOLD = `650 15px ${FAMILY}`;
/** Texts that were measured; emptied when it is full. */
const MEASURED_MOST = 1000;

const ruler = document.createElement("canvas").getContext("2d");
const measured = new Map<string, string>();

function widthOf(text: string, font: string): number {
  if (ruler === null) return text.length * 8;
  ruler.font = font;
  return ruler.measureText(clean(text)).width;
}

/** The text in at most that width. Drawn text does not wrap; the list beside the drawing has all of it. */
function fit(text: string, width: number, font = PLAIN): string {
  const key = `${Math.floor(width)} ${font} ${text}`;
  const known = measured.get(key);
  if (known !== undefined) return known;
  if (measured.size >= MEASURED_MOST) measured.clear();
  const found = fitted(text, (it) => widthOf(it, font) <= width);
  measured.set(key, found);
  return found;
}

/** What a card shows of a node. */
interface Card {
  name: string;
  role: string;
  condition: string;
  /** Where the values come from, if not from the node now. */
  source: string[];
  fault: string;
  disks: Disk[];
  clients: number;
  tone: "primary" | "secondary" | "absent" | "bad";
}

interface Disk {
  text: string;
  /** `doubt`: something failed on the node; whether it is this disk is not reported. */
  health: "good" | "doubt" | "bad";
}

/** What the link shows. */
interface Link {
  word: string;
  kind: "connected" | "cut" | "refused" | "unknown";
  /** Index of the node that data goes to; null if it goes nowhere. */
  to: number | null;
  details: string[];
  progress: { share: number; text: string } | null;
}

function item(): Row<string> {
  const root = el("li");
  return { root, update: (text) => setText(root, text) };
}

export class Topology {
  readonly root = el("div", { class: "topology" });
  private readonly drawing = svg("svg", { "aria-hidden": "true", focusable: "false" });
  private readonly list = el("ul", { class: "visually-hidden" });
  private readonly items = new Rows<string>(this.list, item);
  private readonly cards = [new CardView(), new CardView()];
  private readonly link = new LinkView();
  /** Nodes beyond the two that are drawn. */
  private readonly others = el("ul", { class: "others" });
  private readonly otherItems = new Rows<string>(this.others, item);
  private readonly observer = new ResizeObserver(([entry]) => this.resize(entry?.contentRect.width ?? 0));
  /** Reading it during an update would make the browser lay out the page. */
  private width = 0;
  private last: { cards: Card[]; link: Link | null } | null = null;

  constructor() {
    this.drawing.append(this.link.root, ...this.cards.map((card) => card.root));
    this.root.append(this.drawing, this.list, this.others);
    this.observer.observe(this.root);
  }

  dispose(): void {
    this.observer.disconnect();
  }

  update(group: Merged, point: Point | null): void {
    const cards = group.sides.slice(0, 2).map(card);
    const link = cards.length > 1 ? linkOf(group, point) : null;
    this.last = { cards, link };
    const texts = cards.map(cardText);
    if (link) texts.push(linkText(link, cards));
    this.items.update(texts.map((text, at) => [String(at), text]));
    this.otherItems.update(group.sides.slice(2).map((side) => [side.name, cardText(card(side))]));
    setHidden(this.others, group.sides.length < 3);
    this.layout();
  }

  private resize(width: number): void {
    this.width = Math.floor(width);
    this.layout();
  }

  private layout(): void {
    const { width } = this;
    if (this.last === null || width === 0) return;
    const { cards, link } = this.last;
    const narrow = width < NARROW;
    const above = (card: Card | undefined) => (card !== undefined && card.clients > 0 ? CLIENTS : 0);
    const top = 1 + (narrow ? above(cards[0]) : Math.max(...cards.map(above)));
    const wide = Math.min(290, Math.floor((width - 150) / 2));
    const box = narrow || link === null ? Math.min(width - 2, narrow ? width : 320) : wide;
    const heights = cards.map((card) => CardView.height(card));
    const tallest = Math.max(0, ...heights);
    // The line of a link; its texts stand above and below it.
    const line = Math.min(tallest / 2, LINE_AT);
    const texts = line + 12 + ROW * (link?.details.length ?? 0) + (link?.progress ? 30 : 0);
    const space = narrow ? 50 + above(cards[1]) + ROW * (link?.details.length ?? 0) + (link?.progress ? 20 : 0) : 0;
    this.cards.forEach((view, at) => {
      const it = cards[at];
      setHidden(view.root, it === undefined);
      if (it === undefined) return;
      const height = narrow ? (heights[at] ?? 0) : tallest;
      const x = narrow || at === 0 ? 1 : width - box - 1;
      const y = narrow && at === 1 ? top + (heights[0] ?? 0) + space : top;
      view.update(it, { x, y, width: box, height });
    });
    setHidden(this.link.root, link === null);
    const total =
      narrow && cards.length > 1
        ? top + (heights[0] ?? 0) + space + (heights[1] ?? 0)
        : top + Math.max(tallest, link === null ? 0 : texts);
    if (link) {
      const area = narrow
        ? { x: 30, y: top + (heights[0] ?? 0), length: space, upright: true, room: width - 60 }
        : { x: box + 1, y: top + line, length: width - 2 * box - 2, upright: false, room: width - 2 * box - 20 };
      this.link.update(link, area);
    }
    setAttribute(this.drawing, "width", String(width));
    setAttribute(this.drawing, "height", String(total + 1));
    setAttribute(this.drawing, "viewBox", `0 0 ${width} ${total + 1}`);
  }
}

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

class CardView {
  readonly root = svg("g", { class: "card" });
  private readonly box = svg("rect", { rx: "8" });
  private readonly rail = svg("rect", { class: "rail", width: "4", rx: "2" });
  private readonly name = svg("text", { class: "name" });
  private readonly role = svg("text", { class: "role", "text-anchor": "end" });
  private readonly texts = Array.from({ length: DISKS + 5 }, () => svg("text"));
  private readonly marks = Array.from({ length: DISKS + 1 }, () =>
    svg("rect", { class: "disk", width: "9", height: "9", rx: "2" }),
  );
  private readonly clients = svg("g", { class: "clients" });
  private readonly pill = svg("rect", { rx: "10", height: "20" });
  private readonly stem = svg("line");
  private readonly number = svg("text", { "text-anchor": "middle" });
  private readonly tip = svg("title");

  constructor() {
    this.clients.append(this.stem, this.pill, this.number);
    this.root.append(this.tip, this.box, this.rail, this.name, this.role, ...this.marks, ...this.texts, this.clients);
  }

  static height(card: Card): number {
    return 2 * PAD + 22 + ROW * CardView.rows(card).length + 2;
  }

  private static rows(card: Card): { text: string; kind: string }[] {
    const rows = [{ text: card.condition, kind: card.condition.endsWith("inconsistent") ? "risk" : "plain" }];
    rows.push(...card.source.map((text) => ({ text, kind: "quiet" })));
    if (card.fault) rows.push({ text: card.fault, kind: "fault" });
    rows.push(...card.disks.map(({ text, health }) => ({ text, kind: `disk ${health}` })));
    return rows.filter(({ text }) => text !== "");
  }

  update(card: Card, { x, y, width, height }: Box): void {
    setAttribute(this.root, "class", `card ${card.tone}`);
    setText(this.tip, cardText(card));
    place(this.box, { x, y, width, height });
    place(this.rail, { x: x + 5, y: y + 8, height: height - 16 });
    const left = x + PAD + 6;
    const inner = width - 2 * PAD - 6;
    const role = card.role;
    setText(this.role, role);
    place(this.role, { x: x + width - PAD, y: y + PAD + 13 });
    setText(this.name, fit(card.name, inner - widthOf(role, PLAIN) - 16, BOLD));
    place(this.name, { x: left, y: y + PAD + 13 });
    const rows = CardView.rows(card);
    let mark = 0;
    this.texts.forEach((text, at) => {
      const row = rows[at];
      setHidden(text, row === undefined);
      if (!row) return;
      const base = y + PAD + 22 + ROW * (at + 1) - 4;
      const disk = row.kind.startsWith("disk");
      if (disk) {
        const box = this.marks[mark];
        mark += 1;
        if (box) {
          place(box, { x: left, y: base - 9 });
          setAttribute(box, "class", row.kind);
          setHidden(box, false);
        }
      }
      setAttribute(text, "class", row.kind);
      setText(text, fit(row.text, inner - (disk ? 16 : 0)));
      place(text, { x: left + (disk ? 16 : 0), y: base });
    });
    this.marks.slice(mark).forEach((box) => setHidden(box, true));
    setHidden(this.clients, card.clients === 0);
    const text = count(card.clients, "client");
    const pill = widthOf(text, PLAIN) + 26;
    const middle = x + width / 2;
    setText(this.number, text);
    place(this.pill, { x: middle - pill / 2, y: y - 29, width: pill });
    place(this.number, { x: middle, y: y - 15 });
    for (const [name, value] of Object.entries({ x1: middle, x2: middle, y1: y - 9, y2: y }))
      setAttribute(this.stem, name, String(value));
  }
}

interface Area {
  x: number;
  y: number;
  length: number;
  upright: boolean;
  room: number;
}

class LinkView {
  readonly root = svg("g");
  private readonly line = svg("path", { fill: "none" });
  private readonly head = svg("path");
  private readonly sign = svg("path", { class: "sign", fill: "none" });
  private readonly word = svg("text", { class: "word" });
  private readonly details = [svg("text"), svg("text"), svg("text")];
  private readonly track = svg("rect", { class: "track", height: "6", rx: "3" });
  private readonly done = svg("rect", { class: "done", height: "6", rx: "3" });
  private readonly share = svg("text");

  constructor() {
    this.root.append(this.line, this.head, this.sign, this.word, ...this.details, this.track, this.done, this.share);
  }

  update(link: Link, { x, y, length, upright, room }: Area): void {
    setAttribute(this.root, "class", `link ${link.kind}`);
    // The line runs along u from 0 to length; v is across.
    const at = (u: number, v: number) => (upright ? `${x + v} ${y + u}` : `${x + u} ${y + v}`);
    const [from, to] = [link.to === 0 ? 8 : 0, link.to === 1 ? length - 8 : length];
    setAttribute(this.line, "d", `M ${at(from, 0)} L ${at(to, 0)}`);
    const tip = link.to === 1 ? length - 1 : 1;
    const back = link.to === 1 ? tip - 11 : tip + 11;
    setAttribute(this.head, "d", `M ${at(tip, 0)} L ${at(back, -6)} L ${at(back, 6)} Z`);
    setHidden(this.head, link.to === null);
    const m = length / 2;
    const cross = `M ${at(m - 6, -6)} L ${at(m + 6, 6)} M ${at(m - 6, 6)} L ${at(m + 6, -6)}`;
    const bar = `M ${at(m, -9)} L ${at(m, 9)}`;
    setAttribute(this.sign, "d", link.kind === "cut" ? cross : link.kind === "refused" ? bar : "");
    const left = upright ? x + 22 : x + length / 2;
    const anchor = upright ? "start" : "middle";
    const put = (text: SVGTextElement, value: string, top: number) => {
      setText(text, fit(value, room));
      setAttribute(text, "text-anchor", anchor);
      place(text, { x: left, y: top });
    };
    const first = upright ? y + 24 : y - 14;
    put(this.word, link.word, first);
    this.details.forEach((text, row) =>
      put(text, link.details[row] ?? "", upright ? first + ROW * (row + 1) : y + 24 + ROW * row),
    );
    const below = upright ? first + ROW * (link.details.length + 1) - 8 : y + 16 + ROW * link.details.length;
    const width = Math.min(120, room);
    const start = upright ? left : left - width / 2;
    for (const element of [this.track, this.done, this.share]) setHidden(element, link.progress === null);
    place(this.track, { x: start, y: below, width });
    place(this.done, { x: start, y: below, width: width * (link.progress?.share ?? 0) });
    put(this.share, link.progress?.text ?? "", below + 20);
  }
}

function place(element: SVGElement, values: Record<string, number>): void {
  for (const [name, value] of Object.entries(values)) setAttribute(element, name, String(Math.round(value * 10) / 10));
}

function card(side: Side): Card {
  const { group, seen } = side;
  const away = !responds(side);
  if (away || group === null) {
    const asked = side.index === null ? "not asked" : "no status";
    const age = seen?.age_seconds === null || seen === null ? "" : `, ${coarse(seen.age_seconds * 1000)} ago`;
    return {
      name: side.name,
      role: side.failed && !away ? "not served" : (seen?.role ?? ""),
      condition: side.failed && !away ? side.failed.reason : (seen?.state ?? "state not known"),
      source: away ? [asked, ...(seen ? [`as ${seen.by} reports${age}`] : [])] : [],
      fault: seen?.fault ?? "",
      disks: [],
      clients: 0,
      tone: away ? "absent" : "bad",
    };
  }
  const volumes = group.volumes.flatMap((volume) => disks(volume, group));
  const more = volumes.length - DISKS;
  const shown =
    more > 0
      ? [...volumes.slice(0, DISKS), { text: `and ${more} more`, health: worstHealth(volumes.slice(DISKS)) }]
      : volumes;
  return {
    name: side.name,
    role: group.role,
    condition: `${group.state}, ${group.consistent ? "consistent" : "inconsistent"}`,
    source: [],
    fault: group.fault ?? "",
    disks: shown,
    clients: group.volumes.reduce((sum, volume) => sum + volume.clients, 0),
    tone: group.fault ? "bad" : isPrimary(side) ? "primary" : "secondary",
  };
}

/** One row for each member of a volume. */
function disks(volume: Volume, group: Group): Disk[] {
  if (volume.members.length === 0) {
    const slow = volume.member_state === "responds" ? "" : volume.member_state;
    const failed = group.fault?.includes(`volume ${volume.name} `) ?? false;
    const health = slow || failed ? "bad" : group.fault ? "doubt" : "good";
    return [
      { text: [`${volume.name} ${bytes(volume.size_bytes)}`, slow, volume.member].filter(Boolean).join(" · "), health },
    ];
  }
  return volume.members.map((member) => {
    const share = member.percent === null ? "" : ` ${member.percent} %`;
    return {
      text: `${volume.name} ${member.number} · ${member.state}${share} · ${member.path}`,
      health: member.state === "removed" ? "bad" : member.state === "full" ? "good" : "doubt",
    };
  });
}

function worstHealth(disks: Disk[]): Disk["health"] {
  return disks.some(({ health }) => health === "bad")
    ? "bad"
    : disks.some(({ health }) => health === "doubt")
      ? "doubt"
      : "good";
}

function linkOf(group: Merged, point: Point | null): Link {
  const up = group.sides.filter(responds);
  const peers = up.flatMap((side) => (side.group?.peer ? [side.group.peer] : []));
  const words = peers.map((peer) => peer.connection);
  const connected = words.length > 0 && words.every((word) => word === "connected");
  const kind = up.length === 0 ? "unknown" : connected ? "connected" : words.includes("refused") ? "refused" : "cut";
  const word = kind === "cut" ? "not connected" : kind;
  const details: string[] = [];
  const measured = peers.find((peer) => peer.link)?.link;
  if (connected && measured) details.push(`round trip ${latency(measured.rtt_us)}`);
  if (connected && point?.sent !== null && point !== null) details.push(rate(point.sent));
  const sync = syncOf(group);
  const progress = sync && {
    share: copiedShare(sync),
    text: `resync ${percent(sync.copied_bytes, sync.to_copy_bytes)}`,
  };
  return { word, kind, to: connected ? target(group.sides) : null, details, progress };
}

/** Data goes to the inconsistent copy, otherwise away from the primary. */
function target(sides: Side[]): number | null {
  const broken = sides.slice(0, 2).map((side) => side.group?.consistent === false);
  if (broken[0] !== broken[1]) return broken[0] ? 0 : 1;
  const primary = sides.slice(0, 2).map((side) => (side.group?.role ?? side.seen?.role) === "primary");
  return primary[0] === primary[1] ? null : primary[0] ? 1 : 0;
}

function cardText(card: Card): string {
  const clients = card.clients > 0 ? count(card.clients, "client") : "";
  const facts = [card.role, card.condition, ...card.source, card.fault, ...card.disks.map(({ text }) => text), clients];
  return `${card.name}: ${facts.filter(Boolean).join("; ")}`;
}

function linkText(link: Link, cards: Card[]): string {
  const to = link.to === null ? undefined : cards[link.to];
  const from = link.to === null ? undefined : cards[1 - link.to];
  const way = to && from ? `data goes from ${from.name} to ${to.name}` : "";
  return `link: ${[link.word, way, ...link.details, link.progress?.text ?? ""].filter(Boolean).join("; ")}`;
}
