// SPDX-License-Identifier: Apache-2.0
// An action is confirmed in a dialog. What the daemon reports at stake is confirmed in a second one, by another gesture.

import { el, id, setProse, setText } from "./dom";
import { post } from "./live";
import type { Messages } from "./messages";
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
}

export class Dialogs {
  private shown: { asked: Asked; dialog: HTMLDialogElement; withdraw: () => void } | null = null;

  constructor(
    private readonly messages: Messages,
    private readonly isLive: () => boolean,
  ) {}

  /** Marks the open dialog if its action is offered no longer. */
  update(isOffered: (asked: Asked) => boolean): void {
    if (this.shown && !this.shown.asked.ofHint && !isOffered(this.shown.asked)) this.shown.withdraw();
  }

  /** Asks whether to do it. */
  ask(asked: Asked): void {
    const { offer, group, node } = asked;
    const form = this.frame(`${offer.label}: ${group} on ${node}`);
    const input = offer.input === null ? null : this.input(offer.input);
    const command = el("code", {}, offer.command);
    form.body.append(
      paragraph(offer.effect),
      el("dl", { class: "facts" }, row("same as", command), row("at stake", paragraph(offer.stake))),
    );
    if (input) {
      form.body.append(input.root);
      // The command shown is the one that is requested.
      const given = offer.input?.value ?? "";
      input.field.addEventListener("input", () => {
        if (given !== "")
          setText(
            command,
            offer.command.replace(given, () => input.field.value),
          );
      });
    }
    form.run(`Do it: ${offer.label}`, offer.advised ? "primary" : "", asked, async () => {
      await this.send(asked, input?.field.value ?? null, false, form.dialog);
    });
  }

  /** Asks again, although data may be lost. */
  private askAgain(asked: Asked, input: string | null, error: ApiError): void {
    const { offer, group, node } = asked;
    const form = this.frame(`Data may be lost: ${offer.label}, ${group} on ${node}`);
    form.dialog.classList.add("danger");
    const name = clean(group);
    const typed = this.input({ label: `Type the name of the group to confirm: ${name}`, value: "", pattern: "" });
    form.body.append(
      paragraph(error.error),
      el("dl", { class: "facts" }, row("at stake", paragraph(error.at_stake?.text ?? error.error))),
    );
    if (error.hint) form.body.append(el("dl", { class: "facts" }, row("hint", paragraph(error.hint))));
    form.body.append(typed.root);
    const button = form.run(`Do it nevertheless: ${offer.label}`, "destructive", asked, async () => {
      await this.send(asked, input, true, form.dialog);
    });
    const check = () => {
      button.disabled = ![group, name].includes(typed.field.value);
    };
    typed.field.addEventListener("input", check);
    check();
  }

  private async send(asked: Asked, input: string | null, confirmed: boolean, dialog: HTMLDialogElement): Promise<void> {
    const { index, node, group, offer } = asked;
    const what = `${offer.label}: ${group} on ${node}`;
    const body = { node: index, group, action: offer.action, input, confirmed };
    const result = await post("act", body);
    dialog.close();
    if (result.ok) this.messages.done(what, result.acted);
    else if (result.status === 409 && result.error.code === "needs-confirmation" && !confirmed)
      this.askAgain(asked, input, result.error);
    else this.messages.failed(what, result.error, this.recommended(asked, result.error));
  }

  /** Buttons for what the hint of an error recommends. */
  private recommended(asked: Asked, error: ApiError): HTMLElement[] {
    return (error.offers ?? []).map((offer) => {
      const button = el("button", { type: "button" }, `${offer.label} on ${asked.node}`);
      button.addEventListener("click", () => this.ask({ ...asked, offer, ofHint: true }));
      return button;
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
  private frame(title: string) {
    const name = id();
    const heading = el("h2", { id: name }, title);
    const body = el("div", { class: "body" });
    const problem = el("p", { class: "problem", role: "alert" });
    const cancel = el("button", { type: "button" }, "Cancel");
    const buttons = el("div", { class: "buttons" }, cancel);
    const form = el("form", { method: "dialog" }, heading, body, problem, buttons);
    const dialog = el("dialog", { "aria-labelledby": name }, form);
    const opener = document.activeElement;
    cancel.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (this.shown?.dialog === dialog) this.shown = null;
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    });
    const run = (label: string, kind: string, asked: Asked, act: () => Promise<void>): HTMLButtonElement => {
      const button = el("button", { type: "submit", class: kind }, label);
      buttons.append(button);
      let busy = false;
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        if (busy || button.disabled) return;
        if (!this.isLive()) {
          setText(problem, "The page is not live: what it shows may be old. Nothing was requested.");
          return;
        }
        busy = true;
        button.disabled = true;
        setText(button, "Requested…");
        void act();
      });
      const withdraw = () => {
        if (busy) return;
        button.hidden = true;
        setText(problem, "This action is no longer offered: the state has changed.");
      };
      this.shown?.dialog.close();
      this.shown = { asked, dialog, withdraw };
      document.body.append(dialog);
      dialog.showModal();
      cancel.focus();
      return button;
    };
    return { dialog, body, run };
  }
}

function paragraph(text: string): HTMLElement {
  const element = el("p");
  setProse(element, text);
  return element;
}

function row(label: string, content: HTMLElement): HTMLElement {
  return el("div", {}, el("dt", {}, label), el("dd", {}, content));
}
