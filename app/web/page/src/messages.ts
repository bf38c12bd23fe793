// SPDX-License-Identifier: Apache-2.0
// Results of requests. A brief success is removed after some seconds in which it was on the screen, no dialog was open, and it was neither
// pointed at nor focused; all others stay until they are dismissed. The same result again is counted, and there are at most ten.

import { el, paragraph, setText } from "./dom";
import type { Acted, ApiError } from "./types";

const MOST = 10;
const BRIEF_FOR_SECONDS = 12;
/** A text that needs no action and no note: one clause, without a command or a path. */
const isBrief = (text: string): boolean => !/[.;]\s|\n|`|(^|\s)\//.test(text);

/** A button that asks one node, and is disabled while that node does not respond. */
export interface NodeButton {
  button: HTMLButtonElement;
  index: number;
}

interface Message {
  key: string;
  root: HTMLElement;
  times: number;
  count: HTMLElement;
  buttons: NodeButton[];
  /** Until it is removed; null: it stays. */
  left_seconds: number | null;
}

export class Messages {
  readonly root = el("section", { class: "messages", "aria-label": "Results" });
  private readonly list = el("ul", { "aria-live": "polite", "aria-relevant": "additions text" });
  /** The newest first. */
  private shown: Message[] = [];

  constructor() {
    this.root.append(this.list);
    setInterval(() => this.age(), 1000);
  }

  done(what: string, acted: Acted): void {
    const warnings = acted.warnings.map((warning) => `warning: ${warning}`);
    const message = this.add("good", what, [acted.message === "" ? "done" : acted.message, ...warnings], []);
    if (warnings.length === 0 && isBrief(acted.message)) message.left_seconds = BRIEF_FOR_SECONDS;
  }

  /** A second has passed. */
  private age(): void {
    const covered = document.hidden || document.querySelector("dialog[open]") !== null;
    for (const message of this.shown.filter(({ left_seconds }) => left_seconds !== null)) {
      const unread = covered || message.root.matches(":hover, :focus-within");
      message.left_seconds = unread ? BRIEF_FOR_SECONDS : (message.left_seconds ?? 0) - 1;
      if (message.left_seconds <= 0) this.remove(message);
    }
  }

  /** `buttons` do what the hint recommends. */
  failed(what: string, error: ApiError, buttons: NodeButton[] = []): void {
    const hint = error.hint === null ? [] : [`hint: ${error.hint}`];
    this.add("bad", `${what} failed`, [error.error, ...hint], buttons);
  }

  /** Which nodes can be asked now. */
  update(isUp: (index: number) => boolean): void {
    for (const { button, index } of this.shown.flatMap(({ buttons }) => buttons)) button.disabled = !isUp(index);
  }

  private add(kind: "good" | "bad", what: string, lines: string[], buttons: NodeButton[]): Message {
    const key = JSON.stringify([kind, what, lines]);
    const same = this.shown.find((message) => message.key === key);
    if (same) {
      same.times += 1;
      setText(same.count, `${same.times} times`);
      this.shown = [same, ...this.shown.filter((it) => it !== same)];
      // Moved only if it is not the first, so that focus stays.
      if (this.list.firstChild !== same.root) this.list.prepend(same.root);
      return same;
    }
    const count = el("span", { class: "muted" });
    const dismiss = el("button", { type: "button", class: "small", "aria-label": `Dismiss: ${what}` }, "Dismiss");
    const body = el("div", {}, el("strong", {}, what), " ", count, ...lines.map(paragraph));
    if (buttons.length > 0) body.append(el("p", { class: "buttons" }, ...buttons.map(({ button }) => button)));
    const message = { key, root: el("li", { class: kind }, body, dismiss), times: 1, count, buttons, left_seconds: null };
    dismiss.addEventListener("click", () => this.remove(message));
    this.list.prepend(message.root);
    this.shown.unshift(message);
    const oldest = this.shown[MOST];
    if (oldest) this.remove(oldest);
    return message;
  }

  private remove(message: Message): void {
    const { root } = message;
    const next = root.nextElementSibling ?? root.previousElementSibling;
    const focused = root.contains(document.activeElement);
    root.remove();
    this.shown = this.shown.filter((it) => it !== message);
    if (focused) next?.querySelector<HTMLElement>(":scope > button")?.focus();
  }
}
