// SPDX-License-Identifier: Apache-2.0
// Results of requests. Each stays until it is dismissed.

import { el, setProse } from "./dom";
import type { Acted, ApiError } from "./types";

export class Messages {
  readonly root = el("section", { class: "messages", "aria-label": "Results" });
  private readonly list = el("ul", { "aria-live": "polite", "aria-relevant": "additions" });

  constructor() {
    this.root.append(this.list);
  }

  done(what: string, acted: Acted): void {
    this.add(
      "good",
      what,
      acted.message === "" ? "done" : acted.message,
      acted.warnings.map((warning) => `warning: ${warning}`),
    );
  }

  /** `buttons` do what the hint recommends. */
  failed(what: string, error: ApiError, buttons: HTMLElement[] = []): void {
    this.add("bad", `${what} failed`, error.error, error.hint === null ? [] : [`hint: ${error.hint}`], buttons);
  }

  private add(kind: "good" | "bad", what: string, text: string, more: string[], buttons: HTMLElement[] = []): void {
    const dismiss = el("button", { type: "button", class: "small" }, "Dismiss");
    dismiss.setAttribute("aria-label", `Dismiss: ${what}`);
    const body = el("div", {}, el("strong", {}, what));
    for (const line of [text, ...more]) {
      const paragraph = el("p");
      setProse(paragraph, line);
      body.append(paragraph);
    }
    if (buttons.length > 0) body.append(el("p", { class: "buttons" }, ...buttons));
    const item = el("li", { class: kind }, body, dismiss);
    dismiss.addEventListener("click", () => {
      const next = item.nextElementSibling ?? item.previousElementSibling;
      item.remove();
      next?.querySelector("button")?.focus();
    });
    this.list.prepend(item);
  }
}
