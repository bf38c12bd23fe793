// SPDX-License-Identifier: Apache-2.0
// What happened, the last arrival first, of a bounded number. Clocks of nodes differ, so times do not order their events.

import { el, id, setHidden, setText } from "./dom";
import { bytes, clean, moment, title } from "./text";
import type { DaemonEvent, Happening, Value } from "./types";

const MOST = 500;
/** Fields that are true from the begin of an alert to its end. */
const ALERTS = new Set(["lag_above", "queue_full_within", "resync_not_converging", "protection_lost"]);
const STATE_FIELDS = new Set(["state", "verdict", "fault", "role", ...ALERTS]);

interface Entry {
  root: HTMLElement;
  key: string;
  at_ms: number;
  node: number;
  group: string;
  state: boolean;
}

export class Timeline {
  readonly root = el("section", { class: "timeline", "aria-labelledby": "timeline-title" });
  private readonly list = el("ol", { tabindex: "0", "aria-label": "Timeline, the last arrival first" });
  private readonly empty = el("p", { class: "muted" }, "Nothing happened yet.");
  private readonly note = el("p", { class: "muted" }, "Times are virtual.");
  private readonly group = el("select");
  private readonly node = el("select");
  private readonly only = el("input", { type: "checkbox" });
  private entries: Entry[] = [];
  private readonly keys = new Set<string>();
  private readonly names: string[] = [];

  constructor() {
    const [group, node, only] = [id(), id(), id()];
    this.group.id = group;
    this.node.id = node;
    this.only.id = only;
    option(this.group, "", "all groups");
    option(this.node, "", "all nodes");
    const filters = el(
      "div",
      { class: "filters", role: "group", "aria-label": "Filter of the timeline" },
      el("label", { for: group, class: "visually-hidden" }, "Group"),
      this.group,
      el("label", { for: node, class: "visually-hidden" }, "Node"),
      this.node,
      el("label", { for: only, class: "check" }, this.only, "only state and verdict"),
    );
    for (const input of [this.group, this.node, this.only]) input.addEventListener("change", () => this.filter());
    this.root.append(el("h2", { id: "timeline-title" }, "Timeline"), filters, this.note, this.empty, this.list);
    setHidden(this.note, true);
  }

  /** The names of the nodes by index, and whether times are virtual. */
  update(names: string[], simulated: boolean): void {
    setHidden(this.note, !simulated);
    names.forEach((name, index) => {
      if (this.names[index] === name) return;
      this.names[index] = name;
      const known = [...this.node.options].find((it) => it.value === String(index));
      if (known) setText(known, name);
      else option(this.node, String(index), name);
      for (const entry of this.entries.filter((it) => it.node === index)) {
        const shown = entry.root.querySelector(".node");
        if (shown) setText(shown, name);
      }
    });
  }

  /** Takes one; after a reconnect the server sends the last ones again. */
  take({ node, event }: Happening): void {
    const key = `${node} ${event.sequence} ${event.at_ms}`;
    if (this.keys.has(key)) return;
    this.keys.add(key);
    const group = clean(event.group ?? "");
    if (group !== "" && ![...this.group.options].some((it) => it.value === group)) option(this.group, group, group);
    const texts = describe(event);
    const time = el("time", {}, moment(event.at_ms).slice(5));
    time.title = moment(event.at_ms);
    time.dateTime = moment(event.at_ms).replace(" ", "T");
    const where = el(
      "span",
      {},
      el("span", { class: "node" }, this.names[node] ?? `node ${node}`),
      texts.about === "" ? "" : `, ${texts.about}`,
    );
    const root = el("li", {}, time, where, el("span", { class: "what" }, texts.what));
    if (event.why) root.append(el("span", { class: "why muted" }, event.why));
    const state = event.event !== "change" || Object.keys(event.changed ?? {}).some((field) => STATE_FIELDS.has(field));
    const entry: Entry = { root, key, at_ms: event.at_ms, node, group, state };
    this.insert(entry);
    setHidden(root, !this.shows(entry));
    setHidden(this.empty, this.list.childElementCount > 0);
  }

  private insert(entry: Entry): void {
    this.list.prepend(entry.root);
    this.entries.unshift(entry);
    if (this.entries.length > MOST) {
      const last = this.entries.pop();
      last?.root.remove();
      if (last) this.keys.delete(last.key);
    }
  }

  /** Removes what is later: time began again with a new simulation. */
  forget(after_ms: number): void {
    const later = this.entries.filter((entry) => entry.at_ms > after_ms);
    this.entries = this.entries.filter((entry) => entry.at_ms <= after_ms);
    for (const { root, key } of later) {
      root.remove();
      this.keys.delete(key);
    }
    setHidden(this.empty, this.entries.length > 0);
  }

  private shows(entry: Entry): boolean {
    const [group, node] = [this.group.value, this.node.value];
    return (
      (group === "" || entry.group === group) &&
      (node === "" || String(entry.node) === node) &&
      (!this.only.checked || entry.state)
    );
  }

  private filter(): void {
    for (const entry of this.entries) setHidden(entry.root, !this.shows(entry));
  }
}

function option(select: HTMLSelectElement, value: string, text: string): void {
  const made = el("option", {}, text);
  made.value = value;
  select.append(made);
}

/** `db` and `state replicating → queuing`. */
function describe(event: DaemonEvent): { about: string; what: string } {
  const { object, group, name } = event;
  const about = object === "peer" ? `${group}, peer ${name}` : object === "volume" ? `${group}/${name}` : (group ?? "");
  const changes = Object.entries(event.changed ?? {}).map(([field, { old, new: now }]) =>
    ALERTS.has(field)
      ? `alert ${now === true ? "began" : "ended"}: ${label(field)}`
      : `${label(field)} ${shown(field, old)} → ${shown(field, now)}`,
  );
  switch (event.event) {
    case "change":
      return { about, what: changes.join(", ") };
    case "create":
      return { about, what: ["created", ...known(event)].join(", ") };
    case "destroy":
      return { about, what: object ? "removed" : "the daemon stopped" };
    case "lagged":
      return { about, what: `${event.missed ?? "some"} events were missed` };
    default:
      return { about, what: [event.event, ...changes].join(", ") };
  }
}

/** The fields of a new object that have a value. */
function known(event: DaemonEvent): string[] {
  const fields = Object.entries(event.fields ?? {}).filter(([, value]) => value !== null && value !== false);
  return fields.map(([field, value]) => `${label(field)} ${shown(field, value)}`);
}

function label(field: string): string {
  return field.replace(/_(ms|bytes)$/, "").replaceAll("_", " ");
}

function shown(field: string, value: Value): string {
  if (value === null) return "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number")
    return field.endsWith("_ms") ? moment(value) : field.endsWith("_bytes") ? bytes(value) : String(value);
  return field === "verdict" ? title(value) : clean(value);
}
