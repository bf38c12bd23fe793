// SPDX-License-Identifier: Apache-2.0
// A pair of nodes for the page's tests and for its development: it shows what a daemon shows in the common situations, in
// simple terms. It is no model of helio; that is `helio dashboard --simulate`.

import { forecasts, groupStatus, MIB, START_MS, WRITE_BYTES } from "./status.mjs";

export class Pair {
  constructor({ names = ["paris", "lyon"], group = "db", simulated = true } = {}) {
    // So long that a page stays live on a busy machine.
    this.interval_ms = 10_000;
    Object.assign(this, { group, simulated, time_ms: 0, speed: 1, link_up: true, sequence: 1, happenings: [] });
    this.settings = { rtt_ms: 20, rate_mbit: 100, loss_percent: 0, writes_per_second: 200, mode: "async" };
    this.nodes = names.map((name, at) => ({
      name,
      label: `/run/helio/${name}`,
      running: true,
      role: at === 0 ? "primary" : "secondary",
      disk: "sound",
      consistent: true,
      only: 0,
      last_write_ms: null,
      fault: null,
      error: null,
      counters: zero(),
      verdict: null,
      since_ms: START_MS,
      state: null,
    }));
    Object.assign(this, {
      queue: 0,
      high: 0,
      dirty: 0,
      sync: null,
      split: false,
      paused: false,
      full: false,
      lag_since: null,
    });
    Object.assign(this, { snapshots: [], forecast: true, acts: [], confirm: true, extra: [], advice: [], wrong_key: null });
    Object.assign(this, { attachments: [], reached: null });
    this.judge("the daemon started");
  }

  now() {
    return START_MS + this.time_ms;
  }

  primary() {
    return this.nodes.find((node) => node.running && node.role === "primary");
  }

  other(node) {
    return this.nodes.find((it) => it !== node);
  }

  connected() {
    return this.link_up && !this.split && !this.paused && this.nodes.every((node) => node.running);
  }

  /** So many milliseconds pass. */
  step(ms) {
    this.time_ms += ms;
    for (const node of this.nodes.filter((it) => it.running && it.role === "primary")) this.write(node, ms);
    const primary = this.primary();
    if (primary && this.connected()) this.send(primary, ms);
    this.judge();
  }

  write(node, ms) {
    const writes = Math.round((this.settings.writes_per_second * ms) / 1000);
    const size = writes * WRITE_BYTES;
    const wait_us = this.settings.mode === "sync" && this.connected() ? this.settings.rtt_ms * 1000 : 0;
    node.counters.writes += writes;
    node.counters.write_bytes += size;
    node.counters.timed += writes;
    node.counters.timed_seconds += (writes * (180 + wait_us + 40 * Math.sin(this.time_ms / 7000))) / 1e6;
    if (writes > 0) node.last_write_ms = this.now();
    if (this.split) node.only += size;
    else if (this.dirty > 0 && this.sync === null) this.dirty += size;
    else this.queue += size;
    if (this.queue > 64 * MIB) {
      this.dirty += this.queue;
      this.queue = 0;
    }
    this.high = Math.max(this.high, this.queue);
  }

  send(primary, ms) {
    let room = this.settings.rate_mbit * 125 * ms * (1 - this.settings.loss_percent / 100);
    const sent = Math.min(this.queue, room);
    this.queue -= sent;
    room -= sent;
    if (this.dirty > 0 && this.sync === null) {
      this.sync = { to_copy: this.dirty, copied: 0 };
      this.other(primary).consistent = false;
    }
    let copied = 0;
    if (this.sync) {
      copied = Math.min(this.dirty, room);
      this.dirty -= copied;
      this.sync.copied += copied;
      this.sync.rate = (copied * 1000) / ms;
      if (this.dirty === 0) {
        this.sync = null;
        this.other(primary).consistent = true;
      }
    }
    primary.counters.sent_bytes += sent + copied + 200;
    this.other(primary).counters.received_bytes += sent + copied + 200;
  }

  press(press, name) {
    const node = this.nodes.find((it) => it.name === name);
    if (press === "cut") this.link_up = false;
    if (press === "restore") this.link_up = true;
    if (press === "kill") node.running = false;
    if (press === "start") this.start(node);
    if (press === "fail-disk")
      Object.assign(node, {
        disk: "failed",
        fault: `${name}: the disk of volume data failed; served from ${this.other(node).name}`,
      });
    if (press === "replace-disk") Object.assign(node, { disk: "new" });
    if (press === "fail-flush") Object.assign(node, { fault: `${name}: a flush of the disk of volume data failed` });
    if (press === "restart")
      Object.assign(this, new Pair({ names: this.nodes.map((it) => it.name), group: this.group }));
    this.judge(undefined);
  }

  start(node) {
    Object.assign(node, { running: true, counters: zero() });
    if (node.role === "primary" && this.other(node).role === "primary") this.split = true;
  }

  /** The other node becomes primary although this one may serve: each gets writes of its own. */
  failOver(down) {
    const other = this.other(down);
    other.role = "primary";
    this.dirty += this.queue;
    this.queue = 0;
    other.only = 2 * MIB;
    down.only = 1 * MIB;
    if (down.running) this.split = this.link_up;
  }

  /** Sets verdicts and states, and records what changed. */
  judge(why) {
    for (const node of this.nodes.filter((it) => it.running)) {
      const [verdict, state] = [this.verdict(node)[0], this.state(node)];
      const changed = {};
      if (node.verdict !== null && node.verdict !== verdict) changed.verdict = { old: node.verdict, new: verdict };
      if (node.state !== null && node.state !== state) changed.state = { old: node.state, new: state };
      if (verdict !== node.verdict) node.since_ms = this.now();
      Object.assign(node, { verdict, state });
      if (Object.keys(changed).length > 0)
        this.record(node, {
          event: "change",
          object: "group",
          name: this.group,
          changed,
          why: why ?? this.verdict(node)[1],
        });
    }
  }

  record(node, event) {
    this.sequence += 1;
    const happening = {
      node: this.nodes.indexOf(node),
      event: { sequence: this.sequence, at_ms: this.now(), group: this.group, ...event },
    };
    this.happenings.push(happening);
    return happening;
  }

  state(node) {
    if (!this.connected())
      return node.role === "secondary" || this.dirty > 0 || this.split || this.paused ? "logging" : "queuing";
    if (this.sync) return "syncing";
    return this.queue > 4 * MIB ? "catching-up" : "replicating";
  }

  verdict(node) {
    const other = this.other(node);
    if (this.split) return ["split-brain", "each may have writes of its own (two-primaries)"];
    const fault = node.fault ?? (this.connected() ? other.fault : null);
    if (fault) return ["disk-failed", fault];
    if (!this.nodes.some((it) => it.role === "primary"))
      return ["no-primary", `neither ${node.name} nor ${other.name} is primary`];
    if (this.paused) return ["at-risk", "replication is paused"];
    if (!this.connected())
      return ["at-risk", `no message from ${other.name} for ${Math.round((this.now() - node.since_ms) / 1000)} s`];
    if (this.sync)
      return ["at-risk", `dirty regions are copied; ${this.other(this.primary()).name} is inconsistent until then`];
    return [
      "ok",
      node.role === "primary"
        ? `${other.name} follows in order, ${this.queue} B behind`
        : "has every write that the primary reported (0.1 s ago)",
    ];
  }

  next(node) {
    const [word] = this.verdict(node);
    const other = this.other(node);
    if (word === "split-brain")
      return `choose the node to discard: \`helio demote ${this.group}\` on it, then \`helio resolve ${this.group} --discard NODE\` on it`;
    if (word === "disk-failed") return `repair the disk, then \`helio resync ${this.group}\` on ${node.name}`;
    if (word === "no-primary") return `\`helio promote ${this.group}\` on the node that should be primary`;
    if (this.paused) return `\`helio resume ${this.group}\``;
    if (word === "at-risk" && node.role === "secondary" && !this.connected())
      return `if ${other.name} is surely down: \`helio promote ${this.group} --force\`; otherwise restore the link`;
    if (word === "at-risk" && !this.connected()) return `wait for or restore the link; queued writes are then sent, unless ${other.name} was promoted`;
    if (word === "at-risk") return "nothing; the group is in sync when the resync ends";
    return "nothing";
  }

  offers(node) {
    const { group } = this;
    const offer = (action, label, effect, stake, more = {}) => ({
      action,
      label,
      command: `helio ${action} ${group}`,
      effect,
      stake,
      input: null,
      advised: false,
      common: true,
      takes_over: false,
      only_step: false,
      ...more,
    });
    const all = [];
    if (node.role === "primary") {
      if (this.paused)
        all.push(offer("resume", "Resume", "Resume replication after a pause", "nothing", { advised: true }));
      else
        all.push(
          offer(
            "pause",
            "Pause",
            "Pause replication; the primary goes on",
            `until replication resumes, new writes exist only on the primary; if it fails, ${this.other(node).name} does not have them`,
          ),
        );
      all.push(
        offer(
          "snapshot",
          "Snapshot",
          "Create a snapshot on both nodes",
          "nothing; until the snapshot is deleted, overwritten data needs space on both nodes",
          {
            command: `helio snapshot create ${group}@web-${this.now()}`,
            input: {
              label: "Name of the snapshot",
              value: `web-${this.now()}`,
              pattern: "[A-Za-z0-9][A-Za-z0-9._:\\-]*",
            },
          },
        ),
      );
      all.push(
        offer(
          "verify",
          "Verify",
          "Compare both copies while they are in use",
          "nothing; both copies are read and compared over the link, and no data changes",
          { common: false },
        ),
      );
      all.push(
        offer(
          "demote",
          "Demote",
          "Stop serving clients, and become secondary",
          "clients of this node are disconnected; no data is lost",
          { common: this.split, advised: this.split },
        ),
      );
    } else {
      all.push(
        offer(
          "promote",
          "Promote",
          "Make this node the primary of the group",
          `writes that ${node.name} does not have would be lost; if there may be any, the daemon refuses, or asks again`,
          { advised: !this.connected() && !this.split, takes_over: !this.connected() },
        ),
      );
      all.push(
        offer(
          "switch",
          "Switch",
          "Change the roles of both nodes",
          `clients are disconnected from ${this.other(node).name}, and must connect to ${node.name}; no acknowledged write is lost`,
          { common: this.connected(), takes_over: this.connected() },
        ),
      );
    }
    if (this.split)
      all.push(
        offer(
          "resolve",
          `Discard ${node.name}`,
          `Discard the writes that exist only on ${node.name}`,
          `at most ${node.only} bytes that exist only on ${node.name}`,
          { command: `helio resolve ${group} --discard ${node.name}`, advised: true },
        ),
      );
    return all;
  }

  /** In a split brain: whose writes are kept. */
  choices() {
    if (!this.split) return [];
    return this.nodes.map((lost) => {
      const kept = this.other(lost);
      const steps = [
        { node: lost.name, action: "demote" },
        { node: lost.name, action: "resolve" },
        { node: kept.name, action: "promote" },
      ];
      const left = ({ action }) => action === "resolve" || (action === "demote" ? lost : kept).role === (action === "demote" ? "primary" : "secondary");
      return { keeps: kept.name, discards: lost.name, steps: steps.filter(left), advised: true };
    });
  }

  /** `POST act`: the status and the body of its response. */
  act(request) {
    const { node: index, action, input, confirmed } = request;
    this.acts.push(request);
    const node = this.nodes[index];
    if (action === "promote" && !confirmed && this.confirm) {
      const text = `at most ${Math.round((this.queue + this.dirty) / 1024)} KiB that ${this.other(node).name} acknowledged and ${node.name} never received`;
      return [
        409,
        {
          error: `${node.name} may lack writes of ${this.group}`,
          code: "needs-confirmation",
          hint: `if ${this.other(node).name} is surely down, confirm`,
          at_stake: { text },
        },
      ];
    }
    if (action === "verify")
      return [
        409,
        {
          error: `cannot verify ${this.group}: a verify runs already`,
          code: "conflict",
          hint: `\`helio verify stop ${this.group}\` ends it`,
        },
      ];
    if (action === "pause") this.paused = true;
    if (action === "resume") this.paused = false;
    if (action === "promote") Object.assign(node, { role: "primary" });
    if (action === "switch") for (const it of this.nodes) it.role = it === node ? "primary" : "secondary";
    if (action === "demote") node.role = "secondary";
    if (action === "snapshot")
      this.snapshots.push({ name: input, at_ms: this.now(), preserved_bytes: 65536, consistent: true, missing: null });
    if (action === "resolve") {
      this.split = false;
      Object.assign(node, { role: "secondary", only: 0 });
      this.dirty = 3 * MIB;
    }
    this.judge(`\`helio ${action} ${this.group}\``);
    return [
      200,
      {
        message: `${action} of ${this.group} on ${node.name}: done`,
        warnings: action === "pause" ? ["writes are not replicated"] : [],
      },
    ];
  }

  /** `POST simulate`. */
  simulate(change) {
    if (change.set?.writes_per_second > 1500)
      return [
        400,
        {
          error: "cannot set writes_per_second: 1500 is the most",
          code: "invalid",
          hint: "move the slider to the left",
        },
      ];
    if (change.set) Object.assign(this.settings, change.set);
    if (change.speed !== undefined) this.speed = change.speed;
    if (change.press) this.press(change.press, change.node);
    return [200, { message: change.press === "replace-disk" ? `${change.node} has a new, empty disk` : "" }];
  }

  view() {
    return {
      interval_ms: this.interval_ms,
      nodes: [...this.nodes.map((node) => this.nodeView(node)), ...this.extra],
      simulation: this.simulated ? this.simulation() : null,
    };
  }

  simulation() {
    const primary = this.primary();
    const clients = primary
      ? `The clients write to ${primary.name}; a write takes ${this.settings.mode === "sync" ? this.settings.rtt_ms : 0.2} ms.`
      : "The clients wait: no node serves the volume.";
    return {
      time_ms: this.time_ms,
      speed: this.speed,
      reached: this.reached,
      settings: this.settings,
      link_up: this.link_up,
      clients,
      seed: 7,
      nodes: this.nodes.map((node) => ({
        name: node.name,
        running: node.running,
        disk: node.disk,
        flushes: "succeed",
        serves: node === primary,
      })),
    };
  }

  nodeView(node) {
    const down = {
      error: "cannot connect: no daemon responds",
      code: "no-daemon",
      hint: `\`helio daemon --node ${node.name}\` starts it`,
    };
    const error = node.error ?? (node.running ? null : down);
    if (error === null) node.status = structuredClone(this.status(node));
    const groups = {
      [this.group]: {
        offers: error ? [] : this.offers(node),
        forecast: error || node !== this.primary() ? null : forecasts(this),
        choices: error ? [] : this.choices(),
        snapshots: error ? [] : this.snapshots,
        attachments: error ? [] : this.attachments.filter(({ on }) => on === node.name),
      },
    };
    return {
      label: node.label,
      status: node.status ?? null,
      error,
      age_ms: node.status ? this.now() - node.status.at_ms : 0,
      groups,
    };
  }

  status(node) {
    return {
      node: node.name,
      version: "0.1.0",
      at_ms: this.now(),
      daemon_uptime_seconds: this.time_ms / 1000,
      driver: "ring",
      groups: [groupStatus(this, node)],
      failed: [],
    };
  }
}

function zero() {
  return {
    writes: 0,
    reads: 0,
    flushes: 0,
    discards: 0,
    zeroes: 0,
    write_bytes: 0,
    read_bytes: 0,
    sent_bytes: 0,
    received_bytes: 0,
    answered: 0,
    timed: 0,
    timed_seconds: 0,
  };
}
