// SPDX-License-Identifier: Apache-2.0
// The actions that each node of a group offers, and the next step.

import type { Asked } from "./dialog";
import { el, id, Rows, setAttribute, setHidden, setProse, setText, type Row } from "./dom";
import { onlyOn } from "./facts";
import { isIdle, responds, type Advised, type Merged, type OfferedChoice, type Side } from "./model";
import { store, stored, TAB } from "./stored";
import type { Offer, Step } from "./types";

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
      const { offer, node, group, waits } = asked;
      setAttribute(root, "disabled", waits ? "" : null);
      // What is for the worst case does not look like the next step.
      setAttribute(root, "class", offer.action.includes(" --force") ? "" : kind);
      setText(root, suffix ? `${offer.label} on ${node}` : offer.label);
      setAttribute(root, "title", offer.effect);
      setAttribute(root, "aria-label", suffix ? null : `${offer.label}: ${group} on ${node}`);
    },
  };
}

/** Names a choice: two nodes have two. */
const nameOf = ({ choice }: OfferedChoice): string => choice.discards;

/** A choice that was begun, and its steps that were done on this page. */
interface Begun {
  name: string;
  done: string[];
}

/**
 * The choices: what each loses, and its steps. Only the first step that is left can be done. Once a step of one is done, that one is
 * shown until a node follows the other one or it is given up: between two steps, the nodes may advise something else. Another load of
 * the page in the same tab goes on with it.
 */
class Choices {
  private readonly list = el("ul", { class: "choices", "aria-label": "Choose one" });
  private readonly again = el("button", { type: "button", class: "small" }, "Choose again");
  readonly root = el("div", { class: "choice" }, this.list, this.again);
  private readonly rows: Rows<{ offered: OfferedChoice; merged: Merged }>;
  private begun: Begun | null;
  /** Where `begun` is stored. */
  private readonly place: string;

  constructor(
    ask: Ask,
    /** The key of the group. */
    group: string,
    private readonly changed: () => void,
  ) {
    // The address contains the token: another dashboard at the same port does not read it.
    this.place = `${location.pathname} ${group}`;
    this.begun = JSON.parse(stored(TAB, this.place) ?? "null") as Begun | null;
    this.again.addEventListener("click", () => {
      this.begin(null);
      this.changed();
    });
    this.rows = new Rows(this.list, () => {
      const heading = id();
      const [title, loses, list, end] = [el("h3", { id: heading }), el("p"), el("ol"), el("p")];
      const steps = new Rows<Left>(list, () => stepRow(ask));
      const group = el("div", { role: "group", "aria-labelledby": heading }, title, loses, list, end);
      return {
        root: el("li", {}, group),
        update: ({ offered, merged }) => {
          const { keeps, discards } = offered.choice;
          setText(title, `Keep the writes of ${keeps}, discard those of ${discards}`);
          setText(loses, `only on ${discards}: ${onlyOn(discards, merged)}`);
          const left = this.left(offered).map(({ step, index, offer }, at): readonly [string, Left] => {
            const done = () => this.did(offered, step);
            return [keyOf(step), { step, asked: offer && { index, node: step.node, group: merged.name, offer, waits: at > 0, done } }];
          });
          steps.update(left);
          setText(end, left.length === 0 ? "All steps are done. The nodes must connect." : "");
          setHidden(end, left.length > 0);
        },
      };
    });
  }

  private isBegun(offered: OfferedChoice): boolean {
    return this.begun?.name === nameOf(offered);
  }

  /** What is left to do. The nodes do not report a step that their roles show as done. */
  private left(offered: OfferedChoice): OfferedChoice["steps"] {
    const done = this.isBegun(offered) ? (this.begun?.done ?? []) : [];
    const first = offered.steps.findIndex(({ step }) => !done.includes(keyOf(step)));
    return first < 0 ? [] : offered.steps.slice(first);
  }

  private did(offered: OfferedChoice, step: Step): void {
    const before = this.isBegun(offered) ? (this.begun?.done ?? []) : [];
    this.begin({ name: nameOf(offered), done: [...before, keyOf(step)] });
    this.changed();
  }

  private begin(begun: Begun | null): void {
    this.begun = begun;
    store(TAB, this.place, JSON.stringify(begun));
  }

  /** Whether a choice was begun and has a step left: nothing else is advised before it is done. */
  update(merged: Merged): boolean {
    const { choices } = merged;
    if (this.begun !== null && merged.sides.some(responds) && !choices.some((it) => this.isBegun(it))) this.begin(null);
    const begun = choices.filter((it) => this.isBegun(it));
    const shown = begun.length > 0 ? begun : choices.filter(({ choice }) => choice.advised);
    setHidden(this.root, shown.length === 0);
    setHidden(this.again, this.begun === null);
    this.rows.update(shown.map((offered) => [nameOf(offered), { offered, merged }]));
    return begun.some((it) => this.left(it).length > 0);
  }
}

/** A step that is left; it cannot be requested if its node cannot be asked. */
interface Left {
  step: Step;
  asked: Asked | null;
}

const keyOf = ({ node, action }: Step): string => JSON.stringify([node, action]);

/** A step of a choice: its button, or its command if its node cannot be asked. */
function stepRow(ask: Ask): Row<Left> {
  const [text, buttons] = [el("span"), el("span", { class: "buttons" })];
  const offers = new Rows<Asked>(buttons, () => button(ask, "", true));
  return {
    root: el("li", {}, text, buttons),
    update: ({ step, asked }) => {
      setProse(text, asked ? "" : `\`${step.action}\` on ${step.node}`);
      offers.update(asked ? [[step.action, asked]] : []);
    },
  };
}

/** What to do next, with the buttons that do it. */
export class Next {
  private readonly list = el("ul");
  private readonly choices: Choices;
  readonly root = el("div", { class: "next" });
  private readonly rows: Rows<{ advised: Advised; group: string }>;
  private merged: Merged | null = null;

  constructor(ask: Ask, group: string) {
    this.choices = new Choices(ask, group, () => {
      if (this.merged) this.update(this.merged);
    });
    this.root.append(this.choices.root, this.list);
    this.rows = new Rows(this.list, () => {
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
    const isIdleNow = merged.word === "ok" && merged.next.every(({ text }) => isIdle(text));
    this.merged = merged;
    setHidden(this.list, this.choices.update(merged) || isIdleNow);
    setHidden(this.root, this.list.hasAttribute("hidden") && this.choices.root.hasAttribute("hidden"));
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
    const common = side.offers.filter((offer) => offer.common && !offer.only_step);
    const others = side.offers.filter((offer) => !offer.common && !offer.only_step);
    this.lists.common.update(rows(common));
    this.lists.others.update(rows(others));
    setHidden(this.more, others.length === 0);
    setText(this.none, side.error ? "no status" : side.offers.length === 0 ? "no action now" : "");
    setHidden(this.none, side.offers.length > 0);
  }
}
