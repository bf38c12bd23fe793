// SPDX-License-Identifier: Apache-2.0
// The controls of a simulated pair.

import { el, id, Rows, setAttribute, setHidden, setText, type Row } from "./dom";
import type { Asked } from "./dialog";
import { post } from "./live";
import type { Messages } from "./messages";
import type { Merged } from "./model";
import { span } from "./text";
import type { Settings, SimulatedNode, Simulation } from "./types";

/** A value that was moved here is not overwritten by the server's for so long. */
const HOLD_MS = 1500;
/** While a slider moves, its value is sent at most so often. */
const SEND_EVERY_MS = 150;
/** Below this share of the chosen speed, the reached one is shown, too. */
const REACHED_LEAST = 0.9;
const SPEEDS: readonly [string, number][] = [
  ["Pause", 0],
  ["1×", 1],
  ["5×", 5],
  ["20×", 20],
  ["60×", 60],
];
const MODES = ["sync", "nearsync", "async", "periodic"];

type NumberField = "rtt_ms" | "rate_mbit" | "loss_percent" | "writes_per_second";

/** Positions of a slider, from 0 to STEPS. */
interface Scale {
  field: NumberField;
  label: string;
  least: number;
  most: number;
  /** The first position is zero; the others are logarithmic from `least`. */
  zero: boolean;
  text: (value: number) => string;
}

const STEPS = 100;
const SCALES: readonly Scale[] = [
  { field: "rtt_ms", label: "Round trip", least: 0.1, most: 1000, zero: true, text: (value) => `${value} ms` },
  {
    field: "rate_mbit",
    label: "Rate of the link",
    least: 1,
    most: 10_000,
    zero: false,
    text: (value) => `${value} Mbit/s`,
  },
  { field: "loss_percent", label: "Loss", least: 0.01, most: 10, zero: true, text: (value) => `${value} %` },
  {
    field: "writes_per_second",
    label: "Client writes",
    least: 1,
    most: 2000,
    zero: true,
    text: (value) => `${value} per second`,
  },
];

function valueAt(scale: Scale, position: number): number {
  if (scale.zero && position === 0) return 0;
  const first = scale.zero ? 1 : 0;
  const share = (position - first) / (STEPS - first);
  return Number((scale.least * (scale.most / scale.least) ** share).toPrecision(2));
}

function positionOf(scale: Scale, value: number): number {
  if (value <= 0) return 0;
  const first = scale.zero ? 1 : 0;
  const share = Math.log(value / scale.least) / Math.log(scale.most / scale.least);
  return Math.min(STEPS, Math.max(first, Math.round(first + share * (STEPS - first))));
}

type Send = (what: string, body: unknown) => void;

/** A node, and the action that makes it primary; null if there is none now. */
interface Controlled {
  node: SimulatedNode;
  takeover: Asked | null;
}

class Slider {
  readonly root: HTMLElement;
  private readonly input = el("input", { type: "range", min: "0", max: String(STEPS), step: "1" });
  /** What the slider itself reads out as its value. */
  private readonly chosen = el("span", { class: "chosen", "aria-hidden": "true" });
  private moved_at = -HOLD_MS;
  private timer: number | null = null;

  constructor(
    private readonly scale: Scale,
    private readonly send: Send,
  ) {
    const name = id();
    this.input.id = name;
    this.root = el("div", { class: "slider" }, el("label", { for: name }, scale.label), this.chosen, this.input);
    this.input.addEventListener("input", () => this.moved());
  }

  update(value: number): void {
    if (performance.now() - this.moved_at < HOLD_MS) return;
    this.input.value = String(positionOf(this.scale, value));
    this.show(value);
  }

  private moved(): void {
    this.moved_at = performance.now();
    this.show(valueAt(this.scale, Number(this.input.value)));
    this.timer ??= window.setTimeout(() => {
      this.timer = null;
      const value = valueAt(this.scale, Number(this.input.value));
      this.send(this.scale.label, { set: { [this.scale.field]: value } });
    }, SEND_EVERY_MS);
  }

  private show(value: number): void {
    setText(this.chosen, this.scale.text(value));
    setAttribute(this.input, "aria-valuetext", this.scale.text(value));
  }
}

export class SimulationBar {
  readonly root = el("section", { class: "simulation", "aria-labelledby": "simulation-title" });
  private readonly clients = el("p", { class: "clients" });
  private readonly lost = el("p", { class: "lost", role: "status" });
  private readonly time = el("span", { class: "muted" });
  private readonly sliders: { slider: Slider; field: NumberField }[];
  private readonly mode = el("select");
  private readonly speeds: { button: HTMLButtonElement; speed: number }[];
  private readonly link = el("button", { type: "button" });
  private readonly restart: HTMLButtonElement;
  private readonly nodes: Rows<Controlled>;
  private mode_at = -HOLD_MS;
  private link_up = true;

  constructor(
    private readonly messages: Messages,
    ask: (asked: Asked) => void,
  ) {
    const send: Send = (what, body) => void this.send(what, body);
    this.sliders = SCALES.map((scale) => ({ slider: new Slider(scale, send), field: scale.field }));
    this.speeds = SPEEDS.map(([label, speed]) => {
      const button = el("button", { type: "button", "aria-pressed": "false" }, label);
      button.addEventListener("click", () => send(`Speed ${label}`, { speed }));
      return { button, speed };
    });
    const nodes = el("div", { class: "sim-nodes" });
    this.nodes = new Rows(nodes, () => new NodeControls(send, ask));
    this.link.addEventListener("click", () => send("Link", { press: this.link_up ? "cut" : "restore" }));
    this.restart = press("New pair", "Start again with a new pair of nodes", () =>
      send("New pair", { press: "restart" }),
    );
    const speeds = el("div", { class: "segments", role: "group", "aria-label": "Speed of time" });
    speeds.append(...this.speeds.map(({ button }) => button));
    const whole = el(
      "div",
      { class: "sim-whole" },
      el("h3", {}, "Link and pair"),
      el("span", { class: "buttons" }, this.link, this.restart),
    );
    this.root.append(
      el("div", { class: "bar" }, el("h2", { id: "simulation-title" }, "Simulation"), speeds, this.time),
      el("div", {}, this.clients, this.lost),
      el("div", { class: "sliders" }, ...this.sliders.map(({ slider }) => slider.root), this.modes(send)),
      el("div", { class: "sim-buttons" }, whole, nodes),
    );
  }

  private modes(send: Send): HTMLElement {
    const name = id();
    this.mode.id = name;
    for (const mode of MODES) this.mode.append(el("option", { value: mode }, mode));
    this.mode.addEventListener("change", () => {
      this.mode_at = performance.now();
      send("Mode", { set: { mode: this.mode.value } });
    });
    return el("div", { class: "slider" }, el("label", { for: name }, "Mode"), this.mode);
  }

  private async send(what: string, body: unknown): Promise<void> {
    const result = await post("simulate", body);
    if (!result.ok) this.messages.failed(what, result.error);
    else if (result.acted.message !== "") this.messages.done(what, result.acted);
  }

  update(simulation: Simulation, groups: readonly Merged[]): void {
    const { settings, speed, reached, nodes } = simulation;
    const slow = reached !== null && reached < REACHED_LEAST * speed;
    const at = speed === 0 ? "paused" : `${speed} s each second${slow ? ` (this host reaches ${rounded(reached)} s)` : ""}`;
    setText(this.time, `virtual time ${span(simulation.time_ms)}, ${at}, seed ${simulation.seed}`);
    setText(this.clients, simulation.clients);
    for (const { slider, field } of this.sliders) slider.update(settings[field]);
    this.showMode(settings);
    for (const { button, speed: it } of this.speeds) setAttribute(button, "aria-pressed", String(it === speed));
    this.link_up = simulation.link_up;
    setText(this.link, simulation.link_up ? "Cut the link" : "Restore the link");
    setAttribute(this.link, "class", simulation.link_up ? null : "primary");
    const lost = allLost(simulation);
    setText(
      this.lost,
      lost ? "No complete copy of the data is left, and no command repairs that: press New pair." : "",
    );
    setAttribute(this.restart, "class", lost ? "primary" : null);
    this.nodes.update(nodes.map((node) => [node.name, { node, takeover: takeoverOf(node, groups) }]));
  }

  private showMode({ mode }: Settings): void {
    if (performance.now() - this.mode_at < HOLD_MS) return;
    if (![...this.mode.options].some((option) => option.value === mode))
      this.mode.append(el("option", { value: mode }, mode));
    if (this.mode.value !== mode) this.mode.value = mode;
  }
}

/** Whether no disk has all data any more. A daemon cannot verify the other disk, and advises commands that need its data. */
export function allLost(simulation: Simulation | null): boolean {
  return simulation !== null && simulation.nodes.every(({ disk }) => disk !== "sound");
}

/** The action that makes a node primary without force. */
function takeoverOf({ name }: SimulatedNode, groups: readonly Merged[]): Asked | null {
  for (const group of groups) {
    const side = group.sides.find((it) => it.name === name);
    const offer = side?.offers.find((it) => it.takes_over);
    if (side && offer) return { index: side.index ?? 0, node: name, group: group.name, offer };
  }
  return null;
}

/** A speed with two digits: `6.1`, `42`. */
function rounded(speed: number): string {
  return String(Number(speed.toPrecision(2)));
}

/** The controls of one node. Its buttons keep their places, so that a repeated click does not press another one. */
class NodeControls implements Row<Controlled> {
  readonly root = el("div");
  private readonly name = el("h3");
  private readonly power: HTMLButtonElement;
  private readonly disk: HTMLButtonElement;
  private readonly flush: HTMLButtonElement;
  private readonly failover: HTMLButtonElement;
  private node: SimulatedNode | null = null;
  private takeover: Asked | null = null;

  constructor(send: Send, ask: (asked: Asked) => void) {
    const go = (what: string, pressed: (node: SimulatedNode) => string) => () => {
      if (this.node) send(`${what} ${this.node.name}`, { press: pressed(this.node), node: this.node.name });
    };
    this.power = press(
      "",
      "",
      go("Daemon of", (node) => (node.running ? "kill" : "start")),
    );
    this.disk = press(
      "",
      "",
      go("Disk of", (node) => (node.disk === "failed" ? "replace-disk" : "fail-disk")),
    );
    this.flush = press(
      "Fail a flush",
      "The next flush of the disk fails",
      go("Flush of", () => "fail-flush"),
    );
    this.failover = press("", "Make this node primary. If that is refused, the refusal says what else can be done", () => {
      if (this.takeover) ask(this.takeover);
    });
    const buttons = el("span", { class: "buttons" }, this.power, this.disk, this.flush, this.failover);
    this.root.append(this.name, buttons);
  }

  update({ node, takeover }: Controlled): void {
    this.node = node;
    this.takeover = takeover;
    setText(this.failover, `Fail over to ${node.name}`);
    setAttribute(this.failover, "disabled", takeover === null ? "" : null);
    const disk = { sound: "", new: "disk new and empty", incomplete: "disk new, copy not complete" }[node.disk] ?? `disk ${node.disk}`;
    const facts = [node.running ? (node.serves ? "serves the clients" : "running") : "down", disk];
    if (node.flushes !== "succeed") facts.push(`flushes ${node.flushes}`);
    setText(this.name, `${node.name}: ${facts.filter(Boolean).join(", ")}`);
    setText(this.power, node.running ? `Kill ${node.name}` : `Start ${node.name}`);
    setAttribute(this.power, "class", node.running ? null : "primary");
    setText(this.disk, node.disk === "failed" ? "Replace the disk" : "Fail the disk");
    setAttribute(this.disk, "class", node.disk === "failed" ? "primary" : null);
    for (const button of [this.disk, this.flush]) {
      setAttribute(button, "aria-label", `${button.textContent} of ${node.name}`);
    }
    setHidden(this.flush, node.disk === "failed");
  }
}

function press(label: string, effect: string, act: () => void): HTMLButtonElement {
  const button = el("button", { type: "button" }, label);
  if (effect !== "") button.title = effect;
  button.addEventListener("click", act);
  return button;
}
