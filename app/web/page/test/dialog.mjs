// SPDX-License-Identifier: Apache-2.0
// Dialogs and messages: what is confirmed is what is requested, once, and never after it was withdrawn.
import assert from "node:assert/strict";
import { button, changing, open, reads, shows, test, until } from "./browser_page.mjs";

/** Opens the second dialog, of a promote of lyon. */
async function second(page, fake, pair) {
  pair.press("cut");
  fake.tick(3);
  await button(page, "Promote on lyon").click();
  await button(page, "Do it: Promote").click();
  const dialog = page.getByRole("dialog", { name: "Data may be lost: Promote, db on lyon" });
  await dialog.waitFor();
  return dialog;
}

/** The server responds to the next action when `release` is called. */
function hold(pair) {
  const act = pair.act.bind(pair);
  let release;
  const released = new Promise((done) => (release = done));
  pair.act = (request) => released.then(() => act(request));
  return release;
}

test("Enter does not send an action that was withdrawn", async (t) => {
  const { page, fake, pair } = await open(t);
  const dialog = await second(page, fake, pair);
  const field = dialog.getByRole("textbox");
  await field.fill("db");
  pair.press("kill", "lyon");
  fake.tick(1);
  await dialog.getByText("This action is no longer offered").waitFor();
  await field.press("Enter");
  await field.fill("");
  await field.fill("db");
  await field.press("Enter");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  // A later request arrives, and no confirmed one before it.
  await button(page, "Pause: db on paris").click();
  await button(page, "Do it: Pause").click();
  await shows(page, "pause of db on paris: done");
  assert.deepEqual(
    pair.acts.map(({ action, confirmed }) => [action, confirmed]),
    [
      ["promote", false],
      ["pause", false],
    ],
  );
});

test("a request in progress keeps its dialog, and is sent once", async (t) => {
  const { page, fake, pair } = await open(t);
  const release = hold(pair);
  await button(page, "Pause: db on paris").click();
  const dialog = page.getByRole("dialog");
  await button(dialog, "Do it: Pause").click();
  await button(dialog, "Requested…").waitFor();
  for (let at = 0; at < 3; at += 1) await page.keyboard.press("Escape");
  await dialog.evaluate((it) => it.requestClose());
  assert.ok(await button(dialog, "Cancel").isDisabled());
  await page.keyboard.press("Enter");
  fake.tick(2);
  await shows(page, /^virtual time 2 s/);
  assert.ok(await dialog.isVisible());
  release();
  await shows(page, "pause of db on paris: done");
  assert.equal(await dialog.count(), 0);
  assert.equal(pair.acts.length, 1);
});

test("a late refusal does not replace another dialog", async (t) => {
  const { page, fake, pair } = await open(t);
  pair.press("cut");
  fake.tick(3);
  const release = hold(pair);
  await button(page, "Promote on lyon").click();
  await button(page, "Do it: Promote").click();
  await page.getByRole("button", { name: "Requested…" }).waitFor();
  // A browser may close a dialog all the same.
  await page.evaluate(() => document.querySelector("dialog").close());
  await button(page, "Pause: db on paris").click();
  release();
  await shows(page, "Promote: db on lyon failed");
  assert.equal(await page.getByRole("dialog", { name: "Pause: db on paris" }).count(), 1);
  assert.equal(await page.getByRole("dialog").count(), 1);
});

test("a server that does not respond to a request is reported after 40 s", async (t) => {
  const { page, pair } = await open(t);
  await page.evaluate(() => {
    const timeout = AbortSignal.timeout.bind(AbortSignal);
    AbortSignal.timeout = (ms) => timeout(ms / 400);
  });
  hold(pair);
  await button(page, "Pause: db on paris").click();
  await button(page, "Do it: Pause").click();
  await shows(page, "helio dashboard did not respond within 40 s");
  await shows(page, "the request may still be in progress: see the status before you try again");
  assert.equal(await page.getByRole("dialog").count(), 0);
});

test("the first dialog follows the stake that is offered now", async (t) => {
  let [stake, command] = ["at most 1 KiB", "helio pause db"];
  const { page, fake } = await open(t, {
    prepare: (pair) => {
      changing(pair, "offers", (all) => all.map((offer) => ({ ...offer, stake, command })));
    },
  });
  await button(page, "Pause: db on paris").click();
  const labels = () => page.locator("dialog dt:visible").allTextContents();
  await page.getByRole("dialog").getByText("at most 1 KiB").waitFor();
  assert.deepEqual(await labels(), ["same as", "at stake"]);
  stake = "at most 7 KiB";
  fake.tick(1);
  await page.getByRole("dialog").getByText("at most 7 KiB").waitFor();
  stake = "";
  command = "";
  fake.tick(1);
  await page.getByRole("dialog").getByText("at most 7 KiB").waitFor({ state: "hidden" });
  assert.deepEqual(await labels(), ["same as"]);
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await button(page, "Pause: db on paris").click();
  await page.getByRole("dialog").waitFor();
  assert.deepEqual(await labels(), []);
});

test("a name that is typed stands before the options of the command, and not in its group", async (t) => {
  const { page, fake } = await open(t, {
    pair: { group: "d" },
    prepare: (pair) => {
      const input = { label: "Name of the snapshot", value: "d", pattern: "" };
      const command = "helio snapshot create d@d --state d";
      changing(pair, "offers", (all) => all.map((offer) => (offer.input ? { ...offer, command, input } : offer)));
    },
  });
  fake.tick(1);
  await button(page, "Snapshot: d on paris").click();
  await page.getByLabel("Name of the snapshot").fill("$&x");
  await reads(page.locator("dialog code").first(), "helio snapshot create d@$&x --state d");
});

/** The daemon's refusals recommend a resync of lyon. */
function recommending(pair) {
  const offer = {
    ...{ action: "resync", label: "Resync", command: "helio resync db", effect: "Copy dirty regions", stake: "nothing" },
    ...{ input: null, advised: true, common: true },
  };
  changing(pair, "act", ([status, body]) => [
    status,
    status === 409 ? { ...body, hint: "`helio promote db --yes`", offers: [offer] } : body,
  ]);
}

test("the second dialog shows no hint of the command line, and what it recommends as a button", async (t) => {
  const { page, fake, pair } = await open(t, { prepare: recommending });
  const dialog = await second(page, fake, pair);
  assert.doesNotMatch(await dialog.textContent(), /--yes/);
  await button(dialog, "Resync on lyon").click();
  await page.getByRole("dialog", { name: "Resync: db on lyon" }).waitFor();
  assert.equal(await page.getByRole("dialog").count(), 1);
  await button(page, "Do it: Resync").click();
  await shows(page, "resync of db on lyon: done");
});

test("a button of a message is disabled while its node does not respond", async (t) => {
  const { page, fake, pair } = await open(t, { prepare: recommending });
  await page.getByText("more actions").first().click();
  await button(page, "Verify: db on paris").click();
  await button(page, "Do it: Verify").click();
  const resync = button(page, "Resync on paris");
  await resync.waitFor();
  assert.ok(await resync.isEnabled());
  pair.press("kill", "paris");
  fake.tick(1);
  await until(
    () => resync.isDisabled(),
    (is) => is,
    "the button",
  );
  pair.press("start", "paris");
  fake.tick(1);
  await until(
    () => resync.isEnabled(),
    (is) => is,
    "the button",
  );
});

test("the same message is counted, and there are at most ten", async (t) => {
  const { page, pair } = await open(t);
  const messages = page.locator(".messages li");
  const pause = async () => {
    await button(page, "Pause: db on paris").dispatchEvent("click");
    await button(page, "Do it: Pause").dispatchEvent("click");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  };
  let reason = "busy";
  pair.act = () => [409, { error: `cannot pause db: ${reason}`, code: "conflict", hint: null }];
  await pause();
  await pause();
  await shows(page, "2 times");
  assert.equal(await messages.count(), 1);
  for (let at = 0; at < 11; at += 1) {
    reason = `reason ${at}`;
    await pause();
  }
  assert.equal(await messages.count(), 10);
  assert.match(await messages.first().textContent(), /reason 10/);
  assert.match(await messages.last().textContent(), /reason 1D/);
});

/** What the page does each second is done when the test calls `globalThis.pass(seconds)`; for `script` of `open`. */
function seconds() {
  const set = window.setInterval.bind(window);
  const acts = [];
  window.setInterval = (act) => {
    acts.push(act);
    // A real timer, which does nothing.
    return set(() => {}, 2 ** 30);
  };
  globalThis.pass = (seconds) => {
    for (let at = 0; at < seconds; at += 1) acts.forEach((act) => act());
  };
}

/** A page whose seconds the test lets pass, and a button that gives a message. */
async function timed(t) {
  const { page, fake, pair } = await open(t, { script: seconds });
  const gives = async (message, warnings = []) => {
    pair.act = () => [200, { message, warnings }];
    fake.tick(1);
    await button(page, "Pause: db on paris").click();
    await button(page, "Do it: Pause").click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.mouse.move(0, 0);
  };
  const pass = (seconds) => page.evaluate((seconds) => globalThis.pass(seconds), seconds);
  return { page, gives, pass, all: page.locator(".messages li") };
}

test("a brief success is removed after 12 s on the screen without a use of it", async (t) => {
  const { page, gives, pass, all } = await timed(t);
  await gives("the mode of db is async");
  const used = async (begin, end) => {
    await begin();
    await pass(40);
    await end();
    await pass(11);
    assert.equal(await all.count(), 1);
  };
  await used(
    () => all.hover(),
    () => page.mouse.move(0, 0),
  );
  await used(
    () => all.getByRole("button").focus(),
    () => all.getByRole("button").blur(),
  );
  const hide = (hidden) => page.evaluate((value) => Object.defineProperty(document, "hidden", { value, configurable: true }), hidden);
  await used(
    () => hide(true),
    () => hide(false),
  );
  await used(
    () => button(page, "Pause: db on paris").click(),
    () => page.keyboard.press("Escape"),
  );
  await pass(1);
  assert.equal(await all.count(), 0);
});

test("a message with a next step, a command, a folder or a warning stays", async (t) => {
  const { gives, pass, all } = await timed(t);
  for (const text of [
    "12 KiB were saved in /var/lib/helio/saved/1",
    "1 B was discarded; lyon is copied",
    "lyon has a new, empty disk. Next: start its daemon",
    "run `helio apply`",
    "one\ntwo",
  ])
    await gives(text);
  await gives("paused", ["writes are not replicated"]);
  await pass(60);
  assert.equal(await all.count(), 6);
  await gives("a 5.2 MiB queue and a/b");
  await pass(12);
  assert.equal(await all.count(), 6);
});

test("the focus goes to the group if the button of a dialog is gone", async (t) => {
  const { page, fake, pair } = await open(t);
  await button(page, "Pause: db on paris").click();
  pair.nodes[0].role = "secondary";
  fake.tick(1);
  await page.getByRole("dialog").getByText("This action is no longer offered").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  const focused = () => page.evaluate(() => document.activeElement.className);
  await until(focused, (name) => name === "group", "the focus");
  pair.nodes[0].role = "primary";
  fake.tick(1);
  await button(page, "Pause: db on paris").focus();
  pair.nodes[0].role = "secondary";
  fake.tick(1);
  await until(focused, (name) => name === "group", "the focus");
});
