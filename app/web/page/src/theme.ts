// SPDX-License-Identifier: Apache-2.0
// Light and dark: as the system prefers, or as chosen here.

import { BROWSER, store, stored } from "./stored";

const KEY = "helio-theme";
const CHOICES = ["auto", "light", "dark"] as const;
type Choice = (typeof CHOICES)[number];

const chosen = (): Choice => CHOICES.find((choice) => choice === stored(BROWSER, KEY)) ?? "auto";

/** Connects the select of the header. `changed` is called when colours may differ. */
export function theme(select: HTMLSelectElement, changed: () => void): void {
  const apply = (choice: Choice) => {
    if (choice === "auto") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = choice;
    changed();
  };
  select.value = chosen();
  apply(chosen());
  select.addEventListener("change", () => {
    const choice = CHOICES.find((it) => it === select.value) ?? "auto";
    store(BROWSER, KEY, choice);
    apply(choice);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}

/** A colour of the style sheet as the canvas takes it. */
export function colour(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}
