// SPDX-License-Identifier: Apache-2.0
// Values that the browser stores. It may refuse to, in some private windows for example: they then last as long as the page.

/** As long as the tab. */
export const TAB = (): Storage => sessionStorage;
/** For all pages at this address. */
export const BROWSER = (): Storage => localStorage;

export function store(place: () => Storage, key: string, value: string): void {
  try {
    place().setItem(key, value);
  } catch {
    // See above.
  }
}

export function stored(place: () => Storage, key: string): string | null {
  try {
    return place().getItem(key);
  } catch {
    return null;
  }
}
