// SPDX-License-Identifier: Apache-2.0
// Elements are made once and kept: an update touches only what differs, so that focus, selection and open dialogs stay.
// Every text comes here, and is cleaned here.

import { clean } from "./text";

type Attributes = Record<string, string>;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  return filled(element, attributes, children);
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): SVGElementTagNameMap[K] {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled<E extends Element>(element: E, attributes: Attributes, children: (Node | string)[]): E {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, clean(value));
  for (const child of children) element.append(typeof child === "string" ? clean(child) : child);
  return element;
}

export function setText(element: Element, text: string): void {
  const shown = clean(text);
  if (element.textContent !== shown) element.textContent = shown;
}

export function setAttribute(element: Element, name: string, value: string | null): void {
  const shown = value === null ? null : clean(value);
  if (element.getAttribute(name) === shown) return;
  if (shown === null) element.removeAttribute(name);
  else element.setAttribute(name, shown);
}

export function setHidden(element: HTMLElement | SVGElement, hidden: boolean): void {
  setAttribute(element, "hidden", hidden ? "" : null);
}

const prose = new WeakMap<Element, string>();

/** A sentence in which commands stand between backticks. */
export function setProse(element: Element, text: string): void {
  if (prose.get(element) === text) return;
  prose.set(element, text);
  const pieces = text.split("`");
  const closed = pieces.length % 2 === 1;
  element.replaceChildren(
    ...pieces.map((piece, at) =>
      at % 2 === 1 && closed ? el("code", {}, piece) : document.createTextNode(clean(piece)),
    ),
  );
}

/** A paragraph of prose. */
export function paragraph(text: string): HTMLElement {
  const element = el("p");
  setProse(element, text);
  return element;
}

/** What is made for one item of a list. */
export interface Row<T> {
  readonly root: Element;
  update(item: T): void;
  /** Ends what would outlive its element. */
  dispose?(): void;
}

/** The rows of a list, each kept as long as its key is in the list. */
export class Rows<T> {
  private readonly rows = new Map<string, Row<T>>();

  constructor(
    private readonly parent: Element,
    private readonly make: (key: string, item: T) => Row<T>,
  ) {}

  update(items: readonly (readonly [string, T])[]): void {
    const wanted = new Set(items.map(([key]) => key));
    for (const [key, row] of this.rows) {
      if (!wanted.has(key)) {
        this.remove(row.root);
        row.dispose?.();
        this.rows.delete(key);
      }
    }
    let before: ChildNode | null = this.parent.firstChild;
    for (const [key, item] of items) {
      let row = this.rows.get(key);
      if (row === undefined) {
        row = this.make(key, item);
        this.rows.set(key, row);
      }
      if (row.root === before) before = before.nextSibling;
      else this.parent.insertBefore(row.root, before);
      row.update(item);
    }
  }

  /** The focus of what is removed goes to what surrounds it. */
  private remove(root: Element): void {
    const focused = root.contains(document.activeElement);
    root.remove();
    if (focused) this.parent.closest<HTMLElement>('[tabindex="-1"]')?.focus({ preventScroll: true });
  }
}

let ids = 0;

/** An id that no other element has. */
export function id(): string {
  ids += 1;
  return `e${ids}`;
}
