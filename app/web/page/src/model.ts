// SPDX-License-Identifier: Apache-2.0
// A group as all nodes together show it. Pure: from a view to what is shown.

import { coarse, rank, title } from "./text";
import type { ApiError, Attachment, Choice, FailedGroup, Forecast, Group, GroupView, NodeView, Offer, Snapshot, Step, Sync, View } from "./types";

/** After so many intervals without an update, and at least so long, what was received is old. */
const OLD_INTERVALS = 3;
const OLD_LEAST_MS = 2500;
/** The code of the error that `current` gives a node whose status is old. */
const OLD = "old-status";

/** One node of a group. */
export interface Side {
  name: string;
  /** Index of the node that can be asked; null if only its peer is asked. */
  index: number | null;
  /** The last report of the node itself. */
  group: Group | null;
  failed: FailedGroup | null;
  /** The report of its peer, if the node itself is not asked or does not respond. */
  seen: Seen | null;
  error: ApiError | null;
  age_ms: number;
  /** The node's clock at its last report. */
  at_ms: number;
  /** How long its daemon had been running then. */
  uptime_seconds: number;
  offers: Offer[];
  attachments: Attachment[];
}

export interface Seen {
  by: string;
  role: string | null;
  state: string | null;
  fault: string | null;
  age_seconds: number | null;
}

export interface Advised {
  nodes: string[];
  text: string;
  offers: { index: number; node: string; offer: Offer }[];
}

/** A choice, with what can be requested now. */
export interface OfferedChoice {
  choice: Choice;
  steps: { step: Step; index: number; offer: Offer | null }[];
}

export interface Merged {
  key: string;
  name: string;
  sides: Side[];
  word: string;
  why: string;
  since_ms: number | null;
  /** The clock that `since_ms` is to be compared with. */
  now_ms: number;
  next: Advised[];
  choices: OfferedChoice[];
  forecast: Forecast | null;
  snapshots: Kept[];
}

/** A snapshot, and the nodes that have it. */
export interface Kept {
  name: string;
  at_ms: number;
  on: { node: string; snapshot: Snapshot }[];
}

/** The name of a node: of its status, or its label before there is one. */
export function nodeName(node: NodeView): string {
  return node.status?.node ?? node.label;
}

/** The age from which on what was received is old. */
export function oldAfter(interval_ms: number): number {
  return Math.max(OLD_LEAST_MS, OLD_INTERVALS * interval_ms);
}

/** A node whose status is old does not respond, also if the server reports no error of it. */
export function current(view: View): View {
  const old = oldAfter(view.interval_ms);
  const nodes = view.nodes.map((node) => {
    if (node.error !== null || node.status === null || node.age_ms <= old) return node;
    const error = { error: "the server has received no newer one", code: OLD, hint: null };
    return { ...node, error };
  });
  return { ...view, nodes };
}

/** Whether a node counts as not responding because its status is old. */
export function isOld(node: NodeView): boolean {
  return node.error?.code === OLD;
}

/** How long a node has not responded. */
export function absent(node: NodeView): string {
  const name = nodeName(node);
  if (isOld(node)) return `${name}: last status ${coarse(node.age_ms)} ago`;
  return `no status from ${name}${node.status ? ` for ${coarse(node.age_ms)}` : ""}`;
}

/** What a node reports of a group beside its status. The name may be that of a property of every object. */
function groupOf(node: NodeView | undefined, name: string): GroupView | null {
  return node && Object.hasOwn(node.groups, name) ? (node.groups[name] ?? null) : null;
}

/** The actions that a node can be asked for now. */
export function offersOf(node: NodeView | undefined, group: string): Offer[] {
  return node?.error === null ? (groupOf(node, group)?.offers ?? []) : [];
}

/** Whether the node responds now. */
export function responds(side: Side): boolean {
  return side.index !== null && side.error === null && (side.group !== null || side.failed !== null);
}

/** Whether the node is primary and responds. */
export function isPrimary(side: Side): boolean {
  return responds(side) && side.group?.role === "primary";
}

/** The group as its primary reports it; null if no primary responds. */
export function primaryOf(merged: Merged): Group | null {
  return merged.sides.find(isPrimary)?.group ?? null;
}

/** The resync of a group, as the first node that responds reports it. */
export function syncOf(merged: Merged): Sync | null {
  return merged.sides.filter(responds).find((side) => side.group?.sync)?.group?.sync ?? null;
}

/** The copied part of a resync, from 0 to 1. */
export function copiedShare(sync: Sync): number {
  return Math.min(1, sync.copied_bytes / Math.max(1, sync.to_copy_bytes));
}

/** The groups of all nodes by name. */
export function merge(view: View): Merged[] {
  const found = new Map<string, { name: string; sides: Side[] }>();
  const add = (key: string, name: string, side: Side) => {
    const group = found.get(key) ?? { name, sides: [] };
    group.sides.push(side);
    found.set(key, group);
  };
  view.nodes.forEach((node, index) => {
    for (const group of node.status?.groups ?? []) {
      add(groupKey(group), group.name, { ...side(node, index, group.name), group });
    }
  });
  const orphans = new Map<string, Side[]>();
  view.nodes.forEach((node, index) => {
    for (const failed of node.status?.failed ?? []) {
      const one = { ...side(node, index, failed.name), failed };
      const owner = [...found].find(
        ([, it]) => it.name === failed.name && it.sides.some((s) => s.group?.peer?.name === one.name),
      );
      if (owner) add(owner[0], failed.name, one);
      else orphans.set(failed.name, [...(orphans.get(failed.name) ?? []), one]);
    }
  });
  // A group that no node serves: which nodes it is on is not reported.
  for (const [name, sides] of orphans) {
    const key = keyOf(
      name,
      sides.map((it) => it.name),
    );
    for (const one of sides) add(key, name, one);
  }
  const merged = [...found].map(([key, { name, sides }]) => together(key, name, withPeers(distinct(sides)), view));
  return merged.sort((a, b) => a.name.localeCompare(b.name) || a.key.localeCompare(b.key));
}

/** One side for each node: the same daemon may be named twice. Its newest report counts, if possible one that is not old. */
function distinct(sides: Side[]): Side[] {
  const best = new Map<string, Side>();
  for (const one of sides) {
    const other = best.get(one.name);
    const newer = other === undefined ? 1 : Number(responds(one)) - Number(responds(other)) || one.at_ms - other.at_ms;
    if (newer > 0) best.set(one.name, one);
  }
  return [...best.values()];
}

/** Two pairs of nodes may each have a group of the same name. */
function groupKey(group: Group): string {
  return keyOf(
    group.name,
    [group.node, group.peer?.name].filter((name) => name !== undefined),
  );
}

function keyOf(group: string, nodes: string[]): string {
  return JSON.stringify([group, ...new Set(nodes.toSorted())]);
}

function side(node: NodeView, index: number, group: string): Side {
  return {
    name: nodeName(node),
    index,
    group: null,
    failed: null,
    seen: null,
    error: node.error,
    age_ms: node.age_ms,
    at_ms: node.status?.at_ms ?? 0,
    uptime_seconds: node.status?.daemon_uptime_seconds ?? 0,
    offers: offersOf(node, group),
    attachments: groupOf(node, group)?.attachments ?? [],
  };
}

/** Adds what a node reports of its peer, if the peer itself is not asked or does not respond. */
function withPeers(sides: Side[]): Side[] {
  const all = [...sides];
  for (const one of sides) {
    const peer = one.group?.peer;
    if (!peer || !responds(one)) continue;
    const seen: Seen = {
      by: one.name,
      role: peer.role,
      state: peer.state,
      fault: peer.fault,
      age_seconds: peer.age_seconds,
    };
    const other = all.find((it) => it.name === peer.name);
    if (other === undefined) {
      all.push({
        name: peer.name,
        index: null,
        group: null,
        failed: null,
        seen,
        error: null,
        age_ms: 0,
        at_ms: one.at_ms,
        uptime_seconds: 0,
        offers: [],
        attachments: [],
      });
    } else if (!responds(other)) {
      other.seen = seen;
    }
  }
  return all;
}

function together(key: string, name: string, sides: Side[], view: View): Merged {
  const asked = sides.filter((side) => side.index !== null);
  const choices = choicesOf(asked, name, view);
  const found = verdict(sides);
  const forecasts = asked.filter(responds).map((side) => groupOf(view.nodes[side.index ?? -1], name)?.forecast ?? null);
  return {
    key,
    name,
    sides,
    ...found,
    next: next(sides, choices),
    choices,
    forecast: forecasts.find((forecast) => forecast !== null) ?? null,
    snapshots: snapshots(asked, name, view),
  };
}

type Verdict = Pick<Merged, "word" | "why" | "since_ms" | "now_ms">;

function verdict(sides: Side[]): Verdict {
  const up = sides.filter(responds);
  const groups = up.flatMap((side) => (side.group === null ? [] : [{ side, group: side.group }]));
  if (groups.length === 0) {
    const failed = up.flatMap((side) => (side.failed === null ? [] : [{ side, failed: side.failed }]));
    const first = failed[0];
    if (first === undefined) return noResponse(sides);
    const why = failed.map(({ side, failed: { reason } }) => `on ${side.name}: ${reason}`).join("; ");
    return { word: "not-served", why, since_ms: first.failed.since_ms, now_ms: first.side.at_ms };
  }
  const primaries = groups.filter(({ group }) => group.role === "primary");
  const apart = primaries.every(({ group }) => group.peer?.connection !== "connected");
  if (primaries.length > 1 && apart && !groups.some(({ group }) => group.verdict.word === "split-brain")) {
    const names = primaries.map(({ side }) => side.name).join(" and ");
    const since_ms = Math.max(...primaries.map(({ group }) => group.state_since_ms));
    const why = `${names} are primary and not connected: each may acknowledge writes that the other does not have`;
    return { word: "split-brain", why, since_ms, now_ms: primaries[0]?.side.at_ms ?? 0 };
  }
  // `unknown`, and `no-primary` while another node is primary, do not count if another node reports more.
  const unsure = (word: string) => word === "unknown" || (word === "no-primary" && primaries.length > 0);
  const sure = groups.filter(({ group }) => !unsure(group.verdict.word));
  const candidates = sure.length > 0 ? sure : groups;
  const worst = candidates.reduce((one, other) => (outranks(other, one) ? other : one));
  const { word, why, since_ms } = worst.group.verdict;
  return { word, why, since_ms, now_ms: worst.side.at_ms };
}

/** Whether the verdict of `one` is worse, or as bad and that of a primary. */
function outranks(one: { group: Group }, other: { group: Group }): boolean {
  const [a, b] = [rank(one.group.verdict.word), rank(other.group.verdict.word)];
  return a < b || (a === b && one.group.role === "primary" && other.group.role !== "primary");
}

/** No node of the group responds. */
function noResponse(sides: Side[]): Verdict {
  const last = sides.filter((side) => side.group !== null).sort((a, b) => a.age_ms - b.age_ms)[0];
  const known = last?.group ? `; ${last.name} reported ${title(last.group.verdict.word)} last` : "";
  return { word: "unknown", why: `no node responds${known}`, since_ms: null, now_ms: last?.at_ms ?? 0 };
}

/** The choices, as the first node that responds reports them. */
function choicesOf(asked: Side[], name: string, view: View): OfferedChoice[] {
  const reports = asked.filter(responds).map((side) => groupOf(view.nodes[side.index ?? -1], name)?.choices ?? []);
  return (reports.find((choices) => choices.length > 0) ?? []).map((choice) => {
    const steps = choice.steps.map((step) => {
      const side = asked.find((it) => it.name === step.node);
      return { step, index: side?.index ?? 0, offer: side?.offers.find((it) => it.action === step.action) ?? null };
    });
    return { choice, steps };
  });
}

/**
 * What to do, the same text once, each offer with the text that contains its command. While a choice is advised, the texts that recommend
 * `helio resolve` are left out: the choice shows their steps. Other texts stay, for example how to repair a disk.
 */
function next(sides: Side[], choices: OfferedChoice[]): Advised[] {
  const all: Advised[] = [];
  const steps = new Set(choices.filter(({ choice }) => choice.advised).flatMap((it) => it.steps.map(({ offer }) => offer)));
  const isOfChoice = (text: string) => steps.size > 0 && text.includes("helio resolve ");
  const up = sides.filter(responds);
  const own = (side: Side) => side.failed?.hint ?? side.group?.next ?? "";
  const put = (text: string, node: string): Advised => {
    const same = all.find((advised) => advised.text === text);
    if (same === undefined) {
      const made = { nodes: [node], text, offers: [] };
      all.push(made);
      return made;
    }
    if (!same.nodes.includes(node)) same.nodes.push(node);
    return same;
  };
  for (const side of up) put(own(side), side.name);
  for (const side of up) {
    for (const offer of side.offers.filter(({ advised }) => advised)) {
      const has = (text: string) => offer.command !== "" && text.includes(offer.command);
      const found = has(own(side)) ? put(own(side), side.name) : all.find((advised) => has(advised.text));
      if (steps.has(offer) && (found === undefined || isOfChoice(found.text))) continue;
      const place = found ?? put(isIdle(own(side)) ? offer.effect : own(side), side.name);
      place.offers.push({ index: side.index ?? 0, node: side.name, offer });
    }
  }
  const left = all.filter(({ text }) => !isOfChoice(text));
  return left.every(({ text }) => isIdle(text)) ? left : left.filter(({ text }) => !isIdle(text));
}

/** Whether a text says that there is nothing to do. */
export function isIdle(text: string): boolean {
  return text === "nothing";
}

function snapshots(asked: Side[], name: string, view: View): Kept[] {
  const all: Kept[] = [];
  for (const side of asked) {
    for (const snapshot of groupOf(view.nodes[side.index ?? -1], name)?.snapshots ?? []) {
      const on = { node: side.name, snapshot };
      const same = all.find((it) => it.name === snapshot.name && it.at_ms === snapshot.at_ms);
      if (same === undefined) all.push({ name: snapshot.name, at_ms: snapshot.at_ms, on: [on] });
      else same.on.push(on);
    }
  }
  return all.sort((a, b) => b.at_ms - a.at_ms);
}

/** The worst verdict of all groups, and the groups that have it. */
export function worst(groups: readonly Merged[]): { word: string; groups: Merged[] } | null {
  const least = Math.min(...groups.map((group) => rank(group.word)));
  const found = groups.filter((group) => rank(group.word) === least);
  return found[0] === undefined ? null : { word: found[0].word, groups: found };
}
