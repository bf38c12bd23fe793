// SPDX-License-Identifier: Apache-2.0
// A choice of the writes that are kept: what each loses, its steps in their order, and its end.
import assert from "node:assert/strict";
import { button, changing, open, reads, shows, test, until } from "./browser_page.mjs";

const choice = (page, kept, lost) =>
  page.getByRole("group", { name: `Keep the writes of ${kept}, discard those of ${lost}`, exact: true });
const steps = async (choice) => (await choice.getByRole("listitem").allTextContents()).join("; ");

/** Does the step with that button, and waits until its dialog is closed. */
async function does(page, label, node) {
  await button(page, `${label} on ${node}`).click();
  await button(page, `Do it: ${label}`).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
}

function split(pair) {
  pair.press("kill", "paris");
  pair.failOver(pair.nodes[0]);
  pair.press("start", "paris");
}

/** Choices with all three steps, of which the fake pair itself offers the actions. */
function threeSteps(pair, advised, given = () => true) {
  pair.confirm = false;
  const all = [
    ["paris", "lyon"],
    ["lyon", "paris"],
  ];
  changing(pair, "choices", () =>
    all.filter(given).map(([keeps, discards]) => ({
      keeps,
      discards,
      advised: advised(),
      steps: [
        { node: discards, action: "demote" },
        { node: discards, action: "resolve" },
        { node: keeps, action: "promote" },
      ],
    })),
  );
  changing(pair, "offers", (offers, node) => {
    const make = (action) => ({
      ...{ action, label: action, command: `helio ${action} db`, effect: action, stake: "", input: null, takes_over: false },
      ...{ advised: advised(), common: advised(), only_step: true },
    });
    return [...offers.filter(({ label }) => label === "Snapshot"), ...["demote", "resolve", "promote"].map(make)];
  });
}

test("two choices are shown with what each loses; only the first step of each can be done", async (t) => {
  const { page, fake, pair } = await open(t);
  fake.tick(2);
  split(pair);
  threeSteps(pair, () => true);
  fake.tick(2);
  await shows(page, "SPLIT BRAIN: db");
  await choice(page, "paris", "lyon").waitFor();
  assert.equal(await page.getByRole("listitem").filter({ has: choice(page, "paris", "lyon") }).count(), 1);
  const paris = choice(page, "lyon", "paris");
  assert.equal(await steps(paris), "demote on paris; resolve on paris; promote on lyon");
  assert.match(await paris.locator("p").first().textContent(), /^only on paris: at most .*iB, last write 21:30:0\dZ$/);
  assert.deepEqual(
    await paris.getByRole("button").evaluateAll((all) => all.map((it) => it.disabled)),
    [false, true, true],
  );
  // The choice stands in the place of the texts, and its steps are no other actions.
  assert.equal(await page.locator(".next .what:visible").count(), 0);
  assert.equal(await page.locator(".node-actions").getByText("resolve").count(), 0);
});

test("a choice that was begun is shown until its end, although the nodes advise something else in between", async (t) => {
  let advised = true;
  const { page, fake, pair } = await open(t);
  fake.tick(2);
  split(pair);
  threeSteps(pair, () => advised);
  fake.tick(1);
  await does(page, "demote", "lyon");
  advised = false;
  pair.next = () => "`helio promote db` on lyon; do not promote paris";
  fake.tick(1);
  const kept = choice(page, "paris", "lyon");
  await until(() => steps(kept), (text) => text === "resolve on lyon; promote on paris", "the steps that are left");
  assert.equal(await choice(page, "lyon", "paris").count(), 0);
  assert.equal(await page.locator(".next .what:visible").count(), 0);
  await does(page, "resolve", "lyon");
  await until(() => steps(kept), (text) => text === "promote on paris", "the last step");
  await does(page, "promote", "paris");
  // The texts stand beside it: the nodes may advise how they connect.
  await kept.getByText("All steps are done. The nodes must connect.").waitFor();
  await page.locator(".next .what:visible").first().waitFor();
  await button(page, "Choose again").click();
  await kept.waitFor({ state: "detached" });
  await page.locator(".next .what:visible").first().waitFor();
});

test("a choice that was begun goes on after another load of the page, and what was done elsewhere is no step", async (t) => {
  const { page, fake, pair } = await open(t);
  fake.tick(2);
  split(pair);
  fake.tick(1);
  await does(page, "Demote", "paris");
  // No choice is advised now, but one was begun on this page.
  const begun = pair.choices.bind(pair);
  pair.choices = () => begun().map((it) => ({ ...it, advised: false }));
  await page.reload();
  const kept = choice(page, "lyon", "paris");
  await until(() => steps(kept), (text) => text === "Discard paris on paris", "the step that is left");
  assert.equal(await choice(page, "paris", "lyon").count(), 0);
  // In a terminal.
  pair.nodes[1].role = "secondary";
  fake.tick(1);
  await until(() => steps(kept), (text) => text === "Discard paris on paris; Promote on lyon", "a step more");
  pair.nodes[1].role = "primary";
  fake.tick(1);
  await until(() => steps(kept), (text) => text === "Discard paris on paris", "the step that is left");
  await button(page, "Choose again").click();
  await kept.waitFor({ state: "detached" });
  await page.reload();
  await page.getByText("live", { exact: true }).waitFor();
  assert.equal(await page.locator(".choices li").count(), 0);
});

test("the last write of a node whose peer does not respond is of its own clock", async (t) => {
  const { page, fake, pair } = await open(t);
  fake.tick(2);
  split(pair);
  fake.tick(1);
  await does(page, "Demote", "lyon");
  pair.press("kill", "paris");
  fake.tick(1);
  await reads(choice(page, "paris", "lyon").locator("p").first(), /^only on lyon: unknown size, last write 21:30:0\dZ;/);
});

test("a choice replaces the texts about it alone", async (t) => {
  const { page, fake, pair } = await open(t);
  fake.tick(2);
  split(pair);
  const next = pair.next.bind(pair);
  pair.next = (node) => (node.name === "lyon" ? "repair the disk: `helio demote db`, then replace it" : next(node));
  fake.tick(1);
  await choice(page, "paris", "lyon").waitFor();
  assert.deepEqual(await page.locator(".next > ul .what:visible").allTextContents(), ["repair the disk: helio demote db, then replace it"]);
  assert.deepEqual(await page.locator(".next > ul .buttons:visible").allTextContents(), ["Demote on lyon"]);
});

test("a refused connection that is no split brain keeps its texts with their buttons", async (t) => {
  const { page, fake, pair } = await open(t);
  fake.tick(2);
  split(pair);
  const all = pair.choices.bind(pair);
  pair.choices = () => all().map((it) => ({ ...it, advised: false }));
  pair.next = () => "promote lyon instead: `helio demote db` on paris; or `helio resolve db --discard lyon` on lyon";
  fake.tick(1);
  await page.locator(".next .what:visible").waitFor();
  assert.equal(await page.locator(".choices li").count(), 0);
  const buttons = page.locator(".next > ul").getByRole("button");
  assert.deepEqual(await buttons.allTextContents(), ["Demote on paris", "Discard paris on paris", "Demote on lyon", "Discard lyon on lyon"]);
});

test("a choice ends when a node follows the other one", async (t) => {
  const { page, fake, pair } = await open(t);
  fake.tick(2);
  split(pair);
  let follows = false;
  threeSteps(pair, () => true, () => !follows);
  fake.tick(1);
  await does(page, "demote", "paris");
  await button(page, "Choose again").waitFor();
  follows = true;
  fake.tick(1);
  await page.locator(".choice").waitFor({ state: "hidden" });
});

test("a step on a node that cannot be asked is its command", async (t) => {
  const { page, fake, pair } = await open(t);
  fake.tick(2);
  split(pair);
  threeSteps(pair, () => true);
  changing(pair, "view", (view) => ({ ...view, nodes: [view.nodes[0]] }));
  fake.tick(1);
  const lyon = choice(page, "paris", "lyon");
  await until(() => steps(lyon), (text) => text === "demote on lyon; resolve on lyon; promote on paris", "the commands");
  assert.deepEqual(await lyon.getByRole("button").allTextContents(), ["promote on paris"]);
  await reads(lyon.locator("code").first(), "demote");
});
