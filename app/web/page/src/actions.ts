// SPDX-License-Identifier: Apache-2.0
// The actions that each node of a group offers, and the next step.

import type { Asked } from "./dialog";
import { el, Rows, setAttribute, setHidden, setProse, setText, type Row } from "./dom";
import { isIdle, type Advised, type Merged, type Side } from "./model";
import type { Offer } from "./types";

export type Ask = (asked: Asked) => void;

/** A button for an offer; `suffix` names the node in its text. */
function button(ask: Ask, kind: string, suffix: boolean): Row<Asked> {
  const root = el("button", { type: "button", class: kind });
  let current: Asked | null = null;
  root.addEventListener("click", () => {
    if (current) ask(current);
  });
  return {
    root,
    update: (asked) => {
      current = asked;
      const { offer, node, group } = asked;
      // What is for the worst case does not look like the next step.
      setAttribute(root, "class", offer.action.includes(" --force") ? "" : kind);
      setText(root, suffix ? `${offer.label} on ${node}` : offer.label);
      setAttribute(root, "title", offer.effect);
      setAttribute(root, "aria-label", suffix ? null : `${offer.label}: ${group} on ${node}`);
    },
  };
}

/** What to do next, with the buttons that do it. */
export class Next {
  readonly root = el("ul", { class: "next" });
  private readonly rows: Rows<{ advised: Advised; group: string }>;

  constructor(ask: Ask) {
    this.rows = new Rows(this.root, () => {
      const [where, text, buttons] = [
        el("span", { class: "where" }),
        el("span", { class: "what" }),
        el("span", { class: "buttons" }),
      ];
      const offers = new Rows<Asked>(buttons, () => button(ask, "primary", true));
      const root = el("li", {}, where, text, buttons);
      return {
        root,
        update: ({ advised, group }) => {
          const idle = isIdle(advised.text);
          setText(where, idle ? "do" : `do on ${advised.nodes.join(" and ")}`);
          setAttribute(root, "class", idle ? "idle" : null);
          setProse(text, advised.text);
          offers.update(
            advised.offers.map(({ index, node, offer }) => [`${offer.action} ${node}`, { index, node, group, offer }]),
          );
          setHidden(buttons, advised.offers.length === 0);
        },
      };
    });
  }

  update(merged: Merged): void {
    // A group that is OK and has nothing to do shows no next step.
    setHidden(this.root, merged.word === "ok" && merged.next.every(({ text }) => isIdle(text)));
    this.rows.update(merged.next.map((advised, at) => [`${at} ${advised.nodes.join("\n")}`, { advised, group: merged.name }]));
  }
}

/** All actions, by node. */
export class Actions {
  readonly root = el("section", { class: "actions" });
  private readonly rows: Rows<{ side: Side; group: string }>;

  constructor(ask: Ask) {
    const list = el("div");
    this.root.append(el("h3", {}, "Actions"), list);
    this.rows = new Rows(list, () => new NodeActions(ask));
  }

  update(merged: Merged): void {
    const asked = merged.sides.filter((side) => side.index !== null);
    this.rows.update(asked.map((side) => [side.name, { side, group: merged.name }]));
  }
}

class NodeActions implements Row<{ side: Side; group: string }> {
  readonly root = el("div", { class: "node-actions" });
  private readonly name = el("h4");
  private readonly none = el("span", { class: "muted" });
  private readonly common = el("span", { class: "buttons" });
  private readonly others = el("span", { class: "buttons" });
  private readonly more = el("details", {}, el("summary", {}, "more actions"), this.others);
  private readonly lists: { common: Rows<Asked>; others: Rows<Asked> };

  constructor(ask: Ask) {
    this.lists = {
      common: new Rows(this.common, () => button(ask, "", false)),
      others: new Rows(this.others, () => button(ask, "", false)),
    };
    this.root.append(this.name, this.none, this.common, this.more);
  }

  update({ side, group }: { side: Side; group: string }): void {
    setText(this.name, side.name);
    const rows = (offers: Offer[]) =>
      offers.map((offer) => [offer.action, { index: side.index ?? 0, node: side.name, group, offer }] as const);
    const common = side.offers.filter((offer) => offer.common);
    const others = side.offers.filter((offer) => !offer.common);
    this.lists.common.update(rows(common));
    this.lists.others.update(rows(others));
    setHidden(this.more, others.length === 0);
    setText(this.none, side.error ? "no status" : side.offers.length === 0 ? "no action now" : "");
    setHidden(this.none, side.offers.length > 0);
  }
}
