// SPDX-License-Identifier: Apache-2.0
// A group as all nodes together show it. Pure: from a view to what is shown.

import { rank, title } from "./text";
import type { ApiError, FailedGroup, Forecast, Group, NodeView, Offer, Snapshot, View } from "./types";

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
  offers: Offer[];
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

/** Whether the node responds now. */
export function responds(side: Side): boolean {
  return side.index !== null && side.error === null && (side.group !== null || side.failed !== null);
}

/** Whether the node is primary and responds. */
export function leads(side: Side): boolean {
  return responds(side) && side.group?.role === "primary";
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
      add(pair(group), group.name, { ...side(node, index, group.name), group });
    }
  });
  view.nodes.forEach((node, index) => {
    for (const failed of node.status?.failed ?? []) {
      const owner = [...found].find(
        ([, it]) => it.name === failed.name && it.sides.some((s) => s.group?.peer?.name === node.status?.node),
      );
      add(owner?.[0] ?? JSON.stringify([failed.name, nodeName(node)]), failed.name, {
        ...side(node, index, failed.name),
        failed,
      });
    }
  });
  const merged = [...found].map(([key, { name, sides }]) => together(key, name, withPeers(sides), view));
  return merged.sort((a, b) => a.name.localeCompare(b.name) || a.key.localeCompare(b.key));
}

/** Two pairs of nodes may each have a group of the same name. */
function pair(group: Group): string {
  const nodes = [group.node, group.peer?.name].filter((name) => name !== undefined).sort();
  return JSON.stringify([group.name, ...nodes]);
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
    offers: node.error === null ? (node.groups[group]?.offers ?? []) : [],
  };
}

/** Adds what a node reports of its peer, where the peer itself is not asked or does not respond. */
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
        offers: [],
      });
    } else if (!responds(other)) {
      other.seen = seen;
    }
  }
  return all;
}

function together(key: string, name: string, sides: Side[], view: View): Merged {
  const asked = sides.filter((side) => side.index !== null);
  const forecasts = asked.filter(responds).map((side) => view.nodes[side.index ?? -1]?.groups[name]?.forecast ?? null);
  return {
    key,
    name,
    sides,
    ...verdict(sides),
    next: next(sides),
    forecast: forecasts.find((forecast) => forecast !== null) ?? null,
    snapshots: snapshots(asked, name, view),
  };
}

type Verdict = Pick<Merged, "word" | "why" | "since_ms" | "now_ms">;

function verdict(sides: Side[]): Verdict {
  const up = sides.filter(responds);
  const failed = up.find((side) => side.failed !== null);
  if (failed?.failed) {
    const { reason, since_ms } = failed.failed;
    return { word: "not-served", why: `on ${failed.name}: ${reason}`, since_ms, now_ms: failed.at_ms };
  }
  const groups = up.flatMap((side) => (side.group === null ? [] : [{ side, group: side.group }]));
  if (groups.length === 0) return silent(sides);
  const primaries = groups.filter(({ group }) => group.role === "primary");
  const apart = primaries.every(({ group }) => group.peer?.connection !== "connected");
  if (primaries.length > 1 && apart && !groups.some(({ group }) => group.verdict.word === "split-brain")) {
    const names = primaries.map(({ side }) => side.name).join(" and ");
    const since_ms = Math.max(...primaries.map(({ group }) => group.state_since_ms));
    const why = `${names} are primary and not connected: each may acknowledge writes that the other does not have`;
    return { word: "split-brain", why, since_ms, now_ms: primaries[0]?.side.at_ms ?? 0 };
  }
  // What a node cannot see from its place does not count if another node reports it.
  const blind = (word: string) => word === "unknown" || (word === "no-primary" && primaries.length > 0);
  const knowing = groups.filter(({ group }) => !blind(group.verdict.word));
  const candidates = knowing.length > 0 ? knowing : groups;
  const worst = candidates.reduce((one, other) => (better(one, other) ? other : one));
  const { word, why, since_ms } = worst.group.verdict;
  return { word, why, since_ms, now_ms: worst.side.at_ms };
}

/** Whether `other` is worse, or as bad and primary. */
function better(one: { group: Group }, other: { group: Group }): boolean {
  const [a, b] = [rank(one.group.verdict.word), rank(other.group.verdict.word)];
  return b < a || (b === a && other.group.role === "primary" && one.group.role !== "primary");
}

/** No node of the group responds. */
function silent(sides: Side[]): Verdict {
  const last = sides.filter((side) => side.group !== null).sort((a, b) => a.age_ms - b.age_ms)[0];
  const known = last?.group ? `; ${last.name} reported ${title(last.group.verdict.word)} last` : "";
  return { word: "unknown", why: `no node responds${known}`, since_ms: null, now_ms: last?.at_ms ?? 0 };
}

/** What to do, the same text once, with the offers that do it. */
function next(sides: Side[]): Advised[] {
  const all: Advised[] = [];
  for (const side of sides.filter(responds)) {
    const text = side.failed?.hint ?? side.group?.next ?? "";
    const offers = side.offers
      .filter((offer) => offer.advised)
      .map((offer) => ({ index: side.index ?? 0, node: side.name, offer }));
    const same = all.find((advised) => advised.text === text);
    if (same === undefined) all.push({ nodes: [side.name], text, offers });
    else {
      same.nodes.push(side.name);
      same.offers.push(...offers);
    }
  }
  const idle = ({ text, offers }: Advised) => text === "nothing" && offers.length === 0;
  return all.every(idle) ? all : all.filter((advised) => !idle(advised));
}

function snapshots(asked: Side[], name: string, view: View): Kept[] {
  const all: Kept[] = [];
  for (const side of asked) {
    for (const snapshot of view.nodes[side.index ?? -1]?.groups[name]?.snapshots ?? []) {
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
