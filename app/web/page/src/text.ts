// SPDX-License-Identifier: Apache-2.0
// Values as text, in the words and units of the command line.

/** Control characters and those that change the direction of text: a name from another node may hold them. */
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** The text as the page may show it. */
export function clean(text: string): string {
  return text.replace(UNSAFE, "\ufffd");
}

const UNITS: readonly [string, number][] = [
  ["PiB", 2 ** 50],
  ["TiB", 2 ** 40],
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
];

/** A size with at most one decimal: `87.7 MiB`. */
export function bytes(value: number): string {
  for (const [name, unit] of UNITS) {
    if (value >= unit) {
      const tenths = Math.floor((value * 10) / unit);
      const exact = tenths % 10 !== 0 && tenths < 1000;
      return `${exact ? (tenths / 10).toFixed(1) : Math.floor(tenths / 10)} ${name}`;
    }
  }
  return `${Math.round(value)} B`;
}

export function rate(value: number): string {
  return `${bytes(value)}/s`;
}

/** A latency: `113 µs`, `50.2 ms`, `2.1 s`. */
export function latency(us: number): string {
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 100_000) return `${(us / 1000).toFixed(1)} ms`;
  if (us < 1_000_000) return `${Math.round(us / 1000)} ms`;
  return `${(us / 1_000_000).toFixed(1)} s`;
}

/** A span as the command line prints it: `250 ms`, `75.2 s`. */
export function seconds(span: number): string {
  return span < 1 ? `${Math.round(span * 1000)} ms` : `${span.toFixed(1)} s`;
}

/** A span in its two largest units: `42 s`, `1 min 15 s`, `3 h 2 min`. */
export function span(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor(s / 3600) % 24} h`;
}

/** A span in its largest unit. */
export function coarse(ms: number): string {
  return /^\d+ \w+/.exec(span(ms))?.[0] ?? "";
}

/** A share in percent; not 0 if there is something, not 100 before all is. */
export function percent(part: number, whole: number): string {
  if (part <= 0 || whole <= 0) return "0 %";
  if (part >= whole) return "100 %";
  return `${Math.min(99, Math.max(1, Math.floor((part * 100) / whole)))} %`;
}

/** A number of things: `1 write`, `1536 writes`. */
export function count(number: number, one: string, more = `${one}s`): string {
  return `${number} ${number === 1 ? one : more}`;
}

/** `2026-11-20 21:36:05Z`. */
export function moment(ms: number): string {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return `${ms} ms`;
  return `${date.toISOString().slice(0, 19).replace("T", " ")}Z`;
}

/** `21:36:05Z`. */
export function clock(ms: number): string {
  return moment(ms).slice(11);
}

/** `21:36:05Z`, with the date if it is not the day of `now`. */
export function momentNear(ms: number, now: number): string {
  return moment(ms).slice(0, 10) === moment(now).slice(0, 10) ? clock(ms) : moment(ms);
}

/** `since 16:07Z (3 min)`, with the date if it is another one. */
export function since(then: number, now: number): string {
  const [date, time] = moment(then).split(" ");
  const day = date === moment(now).slice(0, 10) ? "" : `${(date ?? "").slice(5)} `;
  return `since ${day}${(time ?? "").slice(0, 5)}Z (${coarse(now - then)})`;
}

/** Verdicts, the worst first, in the words for people. `not-served` is no verdict of a daemon: it does not serve the group. */
const TITLES: readonly (readonly [string, string])[] = [
  ["not-served", "NOT SERVED"],
  ["split-brain", "SPLIT BRAIN"],
  ["disk-failed", "DISK FAILED"],
  ["no-primary", "NO PRIMARY"],
  ["unknown", "UNKNOWN"],
  ["at-risk", "AT RISK"],
  ["ok", "OK"],
];

/** The verdict for people; a word that this page does not have as it is. */
export function title(word: string): string {
  return TITLES.find(([known]) => known === word)?.[1] ?? word;
}

/** The rank of a verdict: 0 is the worst. A word that this page does not have ranks with `unknown`. */
export function rank(word: string): number {
  const at = TITLES.findIndex(([known]) => known === word);
  return at < 0 ? TITLES.findIndex(([known]) => known === "unknown") : at;
}

/** The colour of a verdict; its word always stands beside it. */
export function tone(word: string): "ok" | "risk" | "unknown" | "bad" {
  if (word === "ok") return "ok";
  if (word === "at-risk") return "risk";
  return rank(word) === rank("unknown") ? "unknown" : "bad";
}

/** The longest form of a name that passes, shortened in the middle. */
export function fitted(name: string, fits: (text: string) => boolean): string {
  if (fits(name)) return name;
  let [least, most] = [2, [...name].length - 1];
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    if (fits(short(name, middle))) least = middle;
    else most = middle - 1;
  }
  return short(name, least);
}

/** A name of at most so many characters, shortened in the middle. */
function short(name: string, most: number): string {
  const all = [...name];
  if (all.length <= most) return name;
  const head = Math.max(1, Math.floor(most / 2));
  const tail = Math.max(1, most - head - 1);
  return `${all.slice(0, head).join("")}…${all.slice(all.length - tail).join("")}`;
}
