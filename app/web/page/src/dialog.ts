// SPDX-License-Identifier: Apache-2.0
// An action is confirmed in a dialog. What the daemon reports at stake is confirmed in a second one, by another gesture.

import { el, id, paragraph, setHidden, setProse, setText } from "./dom";
import { post } from "./live";
import type { Messages, NodeButton } from "./messages";
import { clean } from "./text";
import type { ApiError, Offer } from "./types";

/** An action as it is shown: on which node, about which group. */
export interface Asked {
  index: number;
  node: string;
  group: string;
  offer: Offer;
  /** The hint of a refusal recommended it; the node does not offer it otherwise. */
  ofHint?: boolean;
  /** Another step comes first. */
  waits?: boolean;
  /** Called when the daemon has accepted it. */
  done?: () => void;
}

interface Shown {
  asked: Asked;
  dialog: HTMLDialogElement;
  withdraw: () => void;
  /** The stake of the action as it is offered now; null if the daemon itself reported it. */
  stake: Stake | null;
}

export class Dialogs {
  private shown: Shown | null = null;

  constructor(
    private readonly messages: Messages,
    private readonly isLive: () => boolean,
    /** What has the focus after a dialog if its button is gone. */
    private readonly home: (asked: Asked) => HTMLElement | null,
  ) {}

  /** `current`: the action as it is offered now; null if it is not. */
  update(current: (asked: Asked) => Offer | null): void {
    if (this.shown === null) return;
    const offer = current(this.shown.asked);
    if (offer === null) this.shown.withdraw();
    else this.shown.stake?.show(offer.stake);
  }

  /** Asks whether to do it. */
  ask(asked: Asked): void {
    const { offer, group, node } = asked;
    const form = this.frame(`${offer.label}: ${group} on ${node}`, asked);
    const command = el("code");
    const stake = new Stake(offer.stake);
    const facts = el("dl", { class: "facts" });
    if (offer.command !== "") facts.append(row("same as", command));
    facts.append(stake.root);
    form.body.append(paragraph(offer.effect), facts);
    const input = offer.input === null ? null : this.input(offer.input);
    // The command shown is the one that is requested.
    const show = () => setText(command, commandWith(offer, input?.field.value ?? null));
    show();
    if (input) {
      form.body.append(input.root);
      input.field.addEventListener("input", show);
    }
    const kind = offer.advised ? "primary" : "";
    form.run(`Do it: ${offer.label}`, kind, stake, () =>
      this.send(asked, input?.field.value ?? null, false, form.dialog),
    );
  }

  /** Asks again, although data may be lost. Its hint is that of the command line: options that this dialog replaces. */
  private askAgain(asked: Asked, input: string | null, error: ApiError): void {
    const { offer, group, node } = asked;
    const form = this.frame(`Data may be lost: ${offer.label}, ${group} on ${node}`, asked);
    form.dialog.classList.add("danger");
    const name = clean(group);
    const typed = this.input({ label: `Type the name of the group to confirm: ${name}`, value: "", pattern: "" });
    const instead = this.recommended(asked, error);
    form.body.append(
      paragraph(error.error),
      el("dl", { class: "facts" }, row("at stake", paragraph(error.at_stake?.text ?? error.error))),
    );
    if (instead.length > 0)
      form.body.append(el("p", {}, "Instead: ", el("span", { class: "buttons" }, ...instead.map(({ button }) => button))));
    form.body.append(typed.root);
    const allow = form.run(`Do it nevertheless: ${offer.label}`, "destructive", null, () =>
      this.send(asked, input, true, form.dialog),
    );
    const check = () => allow([group, name].includes(typed.field.value));
    typed.field.addEventListener("input", check);
    check();
  }

  private async send(asked: Asked, input: string | null, confirmed: boolean, dialog: HTMLDialogElement): Promise<void> {
    const { index, node, group, offer } = asked;
    const what = `${offer.label}: ${group} on ${node}`;
    const body = { node: index, group, action: offer.action, input, confirmed };
    const result = await post("act", body);
    // The browser may have closed the dialog; another one is then not replaced.
    const isShown = this.shown?.dialog === dialog && dialog.open;
    dialog.close();
    if (result.ok) {
      asked.done?.();
      this.messages.done(what, result.acted);
    } else if (isShown && result.status === 409 && result.error.code === "needs-confirmation" && !confirmed)
      this.askAgain(asked, input, result.error);
    else this.messages.failed(what, result.error, this.recommended(asked, result.error));
  }

  /** Buttons for what the hint of an error recommends. */
  private recommended(asked: Asked, error: ApiError): NodeButton[] {
    const { index, node, group } = asked;
    return (error.offers ?? []).map((offer) => {
      const button = el("button", { type: "button" }, `${offer.label} on ${node}`);
      button.addEventListener("click", () => this.ask({ index, node, group, offer, ofHint: true }));
      return { button, index };
    });
  }

  private input(given: { label: string; value: string; pattern: string }): {
    root: HTMLElement;
    field: HTMLInputElement;
  } {
    const name = id();
    const field = el("input", {
      id: name,
      type: "text",
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
    });
    field.value = given.value;
    if (given.pattern !== "") field.pattern = given.pattern;
    field.required = true;
    return { root: el("p", { class: "field" }, el("label", { for: name }, given.label), field), field };
  }

  /** A dialog with a title, and a form that ends with [Cancel], which has the focus, and the button of `run`. */
  private frame(title: string, asked: Asked) {
    const name = id();
    const heading = el("h2", { id: name }, title);
    const body = el("div", { class: "body" });
    const problem = el("p", { class: "problem", role: "alert" });
    const cancel = el("button", { type: "button" }, "Cancel");
    const buttons = el("div", { class: "buttons" }, cancel);
    const form = el("form", { method: "dialog" }, heading, body, problem, buttons);
    const dialog = el("dialog", { "aria-labelledby": name, tabindex: "-1" }, form);
    const opener = document.activeElement;
    cancel.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (this.shown?.dialog === dialog) this.shown = null;
      if (this.shown === null) refocus(opener, this.home(asked));
    });
    const run = (label: string, kind: string, stake: Stake | null, act: () => Promise<void>) => {
      const button = el("button", { type: "submit", class: kind }, label);
      buttons.append(button);
      let [allowed, busy, withdrawn] = [true, false, false];
      const show = () => {
        button.disabled = !allowed || busy || withdrawn;
        button.hidden = withdrawn;
        cancel.disabled = busy;
      };
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        if (withdrawn || busy || !allowed) return;
        if (!this.isLive()) {
          setText(problem, "The page is not live: what it shows may be old. Nothing was requested.");
          return;
        }
        busy = true;
        show();
        setText(button, "Requested…");
        // A button that is disabled has no focus; without one, the keys would not reach the dialog.
        dialog.focus();
        void act();
      });
      // A request in progress cannot be taken back: its dialog stays until the result is known. A browser closes a dialog
      // at a second Escape although `cancel` is prevented, but not if the key itself is.
      dialog.addEventListener("cancel", (event) => {
        if (busy) event.preventDefault();
      });
      dialog.addEventListener("keydown", (event) => {
        if (busy && event.key === "Escape") event.preventDefault();
      });
      const withdraw = () => {
        if (busy || withdrawn) return;
        withdrawn = true;
        show();
        setText(problem, "This action is no longer offered: the state has changed.");
      };
      this.shown?.dialog.close();
      this.shown = { asked, dialog, withdraw, stake };
      document.body.append(dialog);
      dialog.showModal();
      cancel.focus();
      return (allow: boolean) => {
        allowed = allow;
        show();
      };
    };
    return { dialog, body, run };
  }
}

/** What is at stake, in a row that is hidden if it is not known. */
class Stake {
  private readonly text = el("p");
  readonly root = row("at stake", this.text);

  constructor(stake: string) {
    this.show(stake);
  }

  show(stake: string): void {
    setProse(this.text, stake);
    setHidden(this.root, stake === "");
  }
}

/** The command with another name than the one that it was offered with: the name stands behind `@`, before options. */
function commandWith({ command, input }: Offer, value: string | null): string {
  if (input === null || value === null) return command;
  const at = command.indexOf(`@${input.value}`) + 1;
  return at === 0 ? command : command.slice(0, at) + value + command.slice(at + input.value.length);
}

/** Gives the focus back to what had it, or to its group if that is gone. */
function refocus(opener: Element | null, home: HTMLElement | null): void {
  if (opener instanceof HTMLElement && opener !== document.body) {
    opener.focus();
    if (document.activeElement === opener) return;
  }
  home?.focus();
}

function row(label: string, content: HTMLElement): HTMLElement {
  return el("div", {}, el("dt", {}, label), el("dd", {}, content));
}
