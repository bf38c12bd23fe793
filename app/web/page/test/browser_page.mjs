// SPDX-License-Identifier: Apache-2.0
// A browser with the page, and a fake pair behind it. Everything ends with the test, also if it fails.
import { chromium, errors } from "playwright-core";
import { Fake } from "./fake.mjs";
import { Pair } from "./pair.mjs";

const EXECUTABLE = process.env.HELIO_CHROMIUM ?? "/usr/bin/chromium";
const ARGS = ["--disable-gpu", ...(process.getuid?.() === 0 ? ["--no-sandbox"] : [])];
/** On a busy machine. */
const WITHIN_MS = 20_000;
/** The browser reports refused requests by itself; the page shows them. */
const EXPECTED = /Failed to load resource: the server responded with a status of 4\d\d/;

/** How often a test failed because a wait reached its limit, and how often for another reason. */
export const failed = { late: 0, wrong: 0 };

/** Counts how a part of a test fails. */
const counted = (part) => async (test) => {
  try {
    await part(test);
  } catch (error) {
    failed[error instanceof errors.TimeoutError ? "late" : "wrong"] += 1;
    throw error;
  }
};

/** What `all.test.mjs` runs. */
export const tests = [];
export const test = (name, run) => void tests.push({ name, run: counted(run) });

/** The one browser, as a promise. */
let browser = null;

export async function endBrowser() {
  await (await browser)?.close();
  browser = null;
}

/** Opens the page of a pair; fails the test if the page logs an error or breaks the content security policy. */
export async function open(test, { pair = {}, width = 1280, height = 900, scheme = "light", prepare = () => {}, script = () => {} } = {}) {
  browser ??= chromium.launch({ executablePath: EXECUTABLE, args: ARGS });
  const fake = new Fake(new Pair(pair));
  prepare(fake.pair);
  await fake.listen();
  const context = await (await browser).newContext({
    viewport: { width, height },
    colorScheme: scheme,
    reducedMotion: "reduce",
  });
  context.setDefaultTimeout(WITHIN_MS);
  await context.addInitScript(script);
  const page = await context.newPage();
  const problems = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()) && !EXPECTED.test(message.text())) problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  const end = async () => {
    await context.close();
    await fake.close();
    if (problems.length > 0) throw new Error(`the page logged: ${problems.join("\n")}`);
  };
  test.after(counted(end));
  await page.goto(fake.url);
  await page.getByText("live", { exact: true }).waitFor();
  return { page, fake, pair: fake.pair, problems };
}

/** A clock of the page that can be put forward by `skip(page, ms)`; for `script` of `open`. */
export function clock() {
  const now = performance.now.bind(performance);
  globalThis.skipped = 0;
  performance.now = () => now() + globalThis.skipped;
}

export const skip = (page, ms) => page.evaluate((ms) => void (globalThis.skipped += ms), ms);

/** Waits until `read` gives a value that passes. */
export async function until(read, passes, what) {
  const end = performance.now() + WITHIN_MS;
  let last;
  do {
    last = await read();
    if (passes(last)) return last;
    await new Promise((done) => setTimeout(done, 10));
  } while (performance.now() < end);
  throw new errors.TimeoutError(`${what}: still ${JSON.stringify(last)}`);
}

/** Waits until there are so many of these elements. */
export const counts = (elements, expected) => until(() => elements.count(), (now) => now === expected, `${expected} elements`);

/** Waits until the browser has drawn. */
export const drawn = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

/** The drawing of a plot, by its title. */
export function inked(page, title) {
  const figure = page.locator("figure", { has: page.getByRole("heading", { name: title, exact: true }) });
  return figure
    .locator("canvas")
    .first()
    .evaluate((canvas) => canvas.toDataURL());
}

/** Waits until an element has that text, or one that matches. */
export function reads(element, expected) {
  const passes = (text) => (typeof expected === "string" ? text === expected : expected.test(text));
  return until(() => element.textContent(), passes, `the text ${expected}`);
}

/** Waits until the page has that title. */
export const titled = (page, expected) => until(() => title(page), (now) => now === expected, `the title ${expected}`);

/** Changes every result of a method of the fake pair: `change` gets a copy of it, and what the method was called with. */
export function changing(pair, method, change) {
  const original = pair[method].bind(pair);
  pair[method] = (...given) => change(structuredClone(original(...given)), ...given);
}

/** The entry of a curve in the legend of its plot. */
export const legend = (page, text) => page.locator(".legend li", { hasText: text });

export const button = (page, name, options = {}) => page.getByRole("button", { name, exact: true, ...options });
export const title = (page) => page.evaluate(() => document.title);
export const shows = (page, text) => page.getByText(text).first().waitFor();
