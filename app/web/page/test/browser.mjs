// SPDX-License-Identifier: Apache-2.0
// A browser for the end-to-end tests, which are written in Rust: one JSON request a line on standard input, one JSON response a line
// on standard output. `ok` is false if the page does not come to what was requested; `why` then says what it shows instead, and `late` is
// true if a wait reached its limit.

import { createInterface } from "node:readline";
import { chromium, errors } from "playwright-core";

const browser = await chromium.launch({
  executablePath: process.env.HELIO_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});

/** What the page reported that it should not: errors, and what its policy refused. */
let faults = [];
let page = null;

async function open({ url, width = 1280, height = 900, scheme = "light" }) {
  await page?.context().close();
  faults = [];
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, reducedMotion: "reduce" });
  page = await context.newPage();
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("console", (message) => {
    // The browser itself reports every refusal of a request; the page shows those.
    const isRefusal = message.text().startsWith("Failed to load resource") && message.text().includes("409");
    if (message.type() === "error" && !isRefusal) faults.push(`console: ${message.text()}`);
  });
  const response = await page.goto(url);
  return response?.status() ?? 0;
}

const text = () => page.evaluate(() => document.body.innerText);

/** Waits until the page shows all texts, and none of the others. */
async function see({ texts = [], without = [], within = 30000 }) {
  const wanted = { texts, without };
  try {
    await page.waitForFunction(
      ({ texts, without }) => {
        const shown = document.body.innerText;
        return texts.every((one) => shown.includes(one)) && !without.some((one) => shown.includes(one));
      },
      wanted,
      { timeout: within, polling: 50 },
    );
  } catch (error) {
    if (!(error instanceof errors.TimeoutError)) throw error;
    const shown = await text();
    const missing = texts.filter((one) => !shown.includes(one));
    const extra = without.filter((one) => shown.includes(one));
    throw new errors.TimeoutError(`missing ${JSON.stringify(missing)}, extra ${JSON.stringify(extra)}`);
  }
}

/** An element by its role and its name: what a person, and a screen reader, goes by. */
const element = ({ role, name, exact = true }) => page.getByRole(role, { name, exact }).first();

const actions = {
  open,
  see,
  text,
  click: (wish) => element(wish).click({ timeout: 15000 }),
  clickText: (wish) => page.getByText(wish.text, { exact: true }).first().click({ timeout: 15000 }),
  fill: ({ value, ...wish }) => element(wish).fill(value, { timeout: 15000 }),
  select: ({ value, ...wish }) => element(wish).selectOption(value, { timeout: 15000 }),
  press: ({ keys }) => page.keyboard.press(keys),
  run: ({ script }) => page.evaluate(script),
  shot: ({ path }) => page.screenshot({ path }),
  faults: () => faults,
};

for await (const line of createInterface({ input: process.stdin })) {
  const { do: what, ...wish } = JSON.parse(line);
  let response;
  try {
    const value = await actions[what](wish);
    response = { ok: true, value: value instanceof Uint8Array ? null : (value ?? null) };
  } catch (error) {
    const late = error instanceof errors.TimeoutError;
    const shows = late ? `; the page shows:\n${await text()}` : "";
    response = { ok: false, late, why: `${error.message ?? error}${shows}` };
  }
  process.stdout.write(`${JSON.stringify(response)}\n`);
}
await browser.close();
