// SPDX-License-Identifier: Apache-2.0
// What a decision needs about a group, in labelled rows: the words of `helio status GROUP`.

import { el, Rows, setHidden, setProse, setText } from "./dom";
import { isPrimary, primaryOf, responds, type Merged, type Side } from "./model";
import { bytes, coarse, count, latency, momentNear, percent, rate, seconds, span } from "./text";
import type { Attachment, DrillResult, Group, Sync } from "./types";

type Fact = readonly [label: string, text: string];

/** `460 MiB of 1 GiB copied (44 %), 87.7 MiB/s, done in 6.4 s`. */
export function progress(sync: Sync): string {
  const left = sync.eta_seconds === null ? "at an unknown time" : `in ${seconds(sync.eta_seconds)}`;
  const ends = sync.converges ? `done ${left}` : "will not converge at this write rate";
  const sent = sync.shipped_bytes === 0 ? "" : `, ${bytes(sync.shipped_bytes)} of it sent`;
  const share = percent(sync.copied_bytes, sync.to_copy_bytes);
  return `${bytes(sync.copied_bytes)} of ${bytes(sync.to_copy_bytes)} copied (${share})${sent}, ${rate(sync.rate_bytes_per_second)}, ${ends}`;
}

function facts(merged: Merged): Fact[] {
  const up = merged.sides.filter(responds);
  const all: Fact[] = [];
  for (const side of merged.sides) {
    if (side.failed && side.error === null) all.push([side.name, `not served: ${side.failed.reason}`]);
  }
  const faults = new Set(up.flatMap((side) => (side.group?.fault ? [side.group.fault] : [])));
  // A fault that is the reason of the verdict stands there already.
  faults.delete(merged.why);
  all.push(...[...faults].map((fault): Fact => ["fault", fault]));
  if (merged.word === "split-brain")
    all.push(...merged.sides.map(({ name }): Fact => [`only ${name}`, onlyOn(name, merged)]));
  else for (const side of up) all.push(...missing(side, merged));
  const primary = primaryOf(merged);
  for (const side of up) all.push(...link(side));
  if (primary) all.push(...flow(primary));
  for (const side of up) all.push(...extras(side));
  return all;
}

/** Why a node is not connected to its peer, and a node that connects with another key. */
function link({ name, group }: Side): Fact[] {
  const peer = group?.peer;
  if (!peer) return [];
  const all: Fact[] = peer.connection === "connected" ? [] : [[`link of ${name}`, peer.reason]];
  if (peer.wrong_key) {
    const { address, key, age_seconds } = peer.wrong_key;
    const age = coarse(age_seconds * 1000);
    all.push([`refused by ${name}`, `${address} connected ${age} ago with a key that is not the one of ${peer.name}: ${key}`]);
  }
  return all;
}

/** What the secondary does not have. */
function missing({ group }: Side, merged: Merged): Fact[] {
  const peer = group?.peer;
  if (!group || !peer) return [];
  const most = group.volumes.some((volume) => volume.dirty_bytes > 0) ? "at most " : "";
  const writes = group.lag.writes > 0 ? ` in ${count(group.lag.writes, "write")}` : "";
  const lag = `${most}${bytes(group.lag.bytes)}${writes}`;
  // A primary without a consistent copy lacks data itself, and its peer has everything.
  if (group.role === "primary") {
    return group.lag.bytes > 0 ? [[group.consistent ? `not on ${peer.name}` : `not on ${group.node}`, lag]] : [];
  }
  if (peer.connection === "connected" || merged.sides.some(isPrimary)) return [];
  if (peer.age_seconds === null)
    return [[`not on ${group.node}`, `unknown: no message from ${peer.name} since this daemon started`]];
  const had = group.lag.bytes === 0 ? "nothing" : lag;
  const age = coarse(peer.age_seconds * 1000);
  return [
    [`not on ${group.node}`, `${had} when ${peer.name} reported last, ${age} ago; its later writes are not here`],
  ];
}

/** In a split brain: what a node alone has. */
export function onlyOn(name: string, merged: Merged): string {
  const up = merged.sides.filter(responds);
  const side = up.find((it) => it.name === name);
  const reporter = up.find((other) => other.group?.peer?.name === name);
  const peer = reporter?.group?.peer;
  if (side?.group?.role === "primary")
    return `at most ${bytes(side.group.lag.bytes)}${lastWrite(side.group.last_write_ms, side.at_ms)}`;
  const written = lastWrite(side?.group?.last_write_ms ?? peer?.last_write_ms ?? null, side?.at_ms ?? reporter?.at_ms ?? 0);
  if (!peer || peer.only_there_bytes === null) return `unknown size${written}; its daemon shows it before it discards anything`;
  return `at most ${bytes(peer.only_there_bytes)}${written}, as it reported last`;
}

function lastWrite(at_ms: number | null, now: number): string {
  return at_ms === null ? "" : `, last write ${momentNear(at_ms, now)}`;
}

/** Mode, and writes that wait. */
function flow(group: Group): Fact[] {
  const all: Fact[] = [];
  const { requested, effective } = group.mode;
  if (group.peer)
    all.push(["mode", effective === requested ? requested : `${requested} (effective ${effective ?? "none"})`]);
  if (group.answers && group.answers.flushes.count > 0) {
    const { count: number, p50_us, p99_us } = group.answers.flushes;
    all.push(["flushes", `${count(number, "flush", "flushes")}, p50 ${latency(p50_us)}, p99 ${latency(p99_us)}`]);
  }
  const { queue, throttle } = group;
  if (queue && group.peer) {
    const policy = `if full: ${queue.when_full_connected} while connected, ${queue.when_full_disconnected} while not`;
    const wait = throttle.waiting > 0 ? `${count(throttle.waiting, "write")} wait for space; ` : "";
    all.push([
      "queue",
      `${wait}${bytes(queue.bytes)} of ${bytes(queue.bound_bytes)}, most ${bytes(queue.bytes_high_water)}; ${policy}`,
    ]);
  }
  return all;
}

function extras({ name, group, at_ms, attachments }: Side): Fact[] {
  if (!group) return [];
  const all: Fact[] = attachments.map((it) => [`attached on ${name}`, attached(it)]);
  const { run, differing, differing_bytes, stopped } = group.verify;
  if (run) all.push(["verify", `at volume ${run.volume}, ${bytes(run.compared_bytes)} of ${bytes(run.total_bytes)}`]);
  else if (stopped) all.push(["verify", `ended: ${stopped}`]);
  if (differing > 0) all.push(["differs", `${count(differing, "place")}, ${bytes(differing_bytes)}`]);
  for (const { name: volume, verified } of group.volumes) {
    if (!verified) continue;
    const { at_ms: then, differed_bytes, repaired } = verified;
    const differed = differed_bytes === 0 ? "nothing differed" : `${bytes(differed_bytes)} differed`;
    all.push(["verified", `${volume} ${span(at_ms - then)} ago, ${differed}${repaired ? ", and were copied" : ""}`]);
  }
  if (group.restoring) {
    const { snapshot, left_bytes, failed } = group.restoring;
    const state = failed ? `stopped until the daemon of ${name} is restarted: ${failed}` : `${bytes(left_bytes)} left`;
    all.push(["restoring", `from ${snapshot}, ${state}`]);
  }
  const { refused, dropped } = group.throttle;
  if (refused > 0) all.push(["refused", `${count(refused, "write")} failed at the full queue`]);
  if (dropped > 0)
    all.push(["dropped", `${count(dropped, "time")}: the queue was full, and only dirty regions were recorded`]);
  if (group.seeding) {
    const since = span(at_ms - group.seeding.since_ms);
    all.push([
      "seeding",
      `a disk is being shipped for ${since}, ${bytes(group.seeding.changed_bytes)} in regions changed since`,
    ]);
  }
  if (group.safe_copy) {
    const { sound, since_ms, kept_bytes } = group.safe_copy;
    const state = sound ? "preserved" : "damaged";
    all.push([
      "safe copy",
      `${state} on ${name}, from ${momentNear(since_ms, at_ms)}; ${bytes(kept_bytes)} were overwritten since`,
    ]);
  }
  if (group.lease) {
    const left = group.lease.seconds === null ? "" : ` for ${seconds(group.lease.seconds)}`;
    all.push(["lease", `${group.lease.held ? "held" : "granted"} on ${name}${left}`]);
  }
  if (group.drill) all.push([`drill on ${name}`, drill(group.drill.last, group.drill.last_success, at_ms)]);
  return all;
}

/** `data at /dev/helio/db/data, used by mariadbd (1234)`. */
function attached({ volume, state, reason, path, used_by }: Attachment): string {
  if (state !== "attached") return `${volume}: ${state}${reason ? `, ${reason}` : ""}`;
  return `${volume} at ${path}, ${used_by.length === 0 ? "not in use" : `used by ${used_by.join(", ")}`}`;
}

function drill(last: DrillResult, success: DrillResult | null, now: number): string {
  const ago = (result: DrillResult) => coarse(now - result.at_ms);
  const took = coarse(last.duration_seconds * 1000);
  if (last.failure === null) return `succeeded ${ago(last)} ago, in ${took}`;
  const before = success ? `last success ${ago(success)} ago` : "no drill succeeded yet";
  return `failed ${ago(last)} ago, after ${took}: ${last.failure}; ${before}`;
}

export class Facts {
  readonly root = el("dl", { class: "facts" });
  private readonly rows = new Rows<Fact>(this.root, () => {
    const [label, text] = [el("dt"), el("dd")];
    const root = el("div", {}, label, text);
    return {
      root,
      update: ([name, value]) => {
        setText(label, name);
        setProse(text, value);
      },
    };
  });

  update(merged: Merged): void {
    const all = facts(merged);
    const same = (label: string, at: number) => all.slice(0, at).filter(([it]) => it === label).length;
    this.rows.update(all.map((fact, at) => [`${fact[0]} ${same(fact[0], at)}`, fact]));
    setHidden(this.root, all.length === 0);
  }
}
