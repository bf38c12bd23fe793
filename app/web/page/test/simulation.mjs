// SPDX-License-Identifier: Apache-2.0
// The controls of a simulated pair.
import assert from "node:assert/strict";
import { button, counts, open, reads, shows, test, titled, until } from "./browser_page.mjs";

test("the controls of a simulation send what they say", async (t) => {
  const { page, fake, pair } = await open(t);
  await page.getByLabel("Round trip").focus();
  await page.keyboard.press("End");
  await until(
    () => pair.settings.rtt_ms,
    (now) => now === 1000,
    "the round trip",
  );
  assert.equal(await page.getByLabel("Round trip").getAttribute("aria-valuetext"), "1000 ms");
  await page.getByLabel("Mode").selectOption("sync");
  await until(
    () => pair.settings.mode,
    (now) => now === "sync",
    "the mode",
  );
  await button(page, "Pause").click();
  await reads(page.locator("#live"), "paused");
  await button(page, "20×").click();
  await until(
    () => pair.speed,
    (now) => now === 20,
    "the speed",
  );
  await page.getByLabel("Client writes").focus();
  await page.keyboard.press("End");
  await shows(page, "cannot set writes_per_second: 1500 is the most");
  await button(page, "Kill paris").click();
  await button(page, "Fail over to lyon").click();
  await button(page, "Do it: Promote").click();
  const lost = page.getByRole("dialog", { name: "Data may be lost: Promote, db on lyon" });
  await lost.getByRole("textbox").fill("db");
  await button(lost, "Do it nevertheless: Promote").click();
  await shows(page, "promote of db on lyon: done");
  fake.tick(3);
  await button(page, "Start paris").waitFor();
  await reads(page.locator(".guide li").nth(3), /Done\.$/);
});

test("a new pair begins with empty plots and without the events of the last one", async (t) => {
  const { page, fake, pair } = await open(t);
  fake.tick(20);
  pair.press("cut");
  fake.tick(2);
  const items = page.locator(".timeline li");
  await counts(items, 2);
  await button(page, "New pair").click();
  await shows(page, /^virtual time 0 s/);
  fake.tick(3);
  await titled(page, "OK: db · helio");
  assert.equal(await items.count(), 0);
  await shows(page, "Nothing happened yet.");
  await shows(page, /^virtual time 3 s/);
});

test("the speed that is reached is shown if it is below the chosen one", async (t) => {
  const { page, fake, pair } = await open(t);
  const time = page.locator(".simulation .bar .muted");
  Object.assign(pair, { speed: 20, reached: 19 });
  fake.tick(1);
  await reads(time, "virtual time 1 s, 20 s each second, seed 7");
  pair.reached = 6.134;
  fake.tick(1);
  await reads(time, "virtual time 2 s, 20 s each second (this host reaches 6.1 s), seed 7");
});

test("to fail over names the node, asks as every action does, and shows a refusal", async (t) => {
  const { page, fake, pair } = await open(t);
  const [paris, lyon] = ["paris", "lyon"].map((node) => button(page, `Fail over to ${node}`));
  await lyon.waitFor();
  assert.ok(await paris.isDisabled());
  await lyon.click();
  await page.getByRole("dialog", { name: "Switch: db on lyon" }).waitFor();
  await page.keyboard.press("Escape");
  pair.press("cut");
  fake.tick(1);
  const force = { action: "promote --force", label: "promote --force", command: "", effect: "Promote", stake: "writes are lost" };
  const offer = { ...force, input: null, advised: true, common: true, takes_over: false, only_step: false };
  pair.act = () => [409, { error: "paris may still be primary", code: "no-peer", hint: "if it is surely down", offers: [offer] }];
  await lyon.click();
  await button(page, "Do it: Promote").click();
  await shows(page, "paris may still be primary");
  await button(page, "promote --force on lyon").click();
  await page.getByRole("dialog", { name: "promote --force: db on lyon" }).getByText("writes are lost").waitFor();
});

test("a replaced disk is reported, and if no complete copy is left only a new pair is advised", async (t) => {
  const { page, fake, pair } = await open(t);
  await button(page, "Fail the disk of paris").click();
  await button(page, "Replace the disk of paris").click();
  await shows(page, "paris has a new, empty disk");
  await shows(page, "paris: serves the clients, disk new and empty");
  await shows(page, /^repair the disk, then/);
  const lost = page.locator(".simulation").getByRole("status");
  await reads(lost, "");
  // A copy that is not complete is none.
  pair.nodes[0].disk = "incomplete";
  fake.tick(1);
  await shows(page, "paris: serves the clients, disk new, copy not complete");
  await button(page, "Fail the disk of lyon").click();
  await reads(lost, /^No complete copy of the data is left, .* New pair\.$/);
  fake.tick(1);
  assert.equal(await page.locator(".next .what:visible").count(), 0);
  await button(page, "New pair").click();
  await titled(page, "OK: db · helio");
  await reads(lost, "");
  assert.equal(pair.nodes[0].disk, "sound");
});
