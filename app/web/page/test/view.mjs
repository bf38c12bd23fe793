// SPDX-License-Identifier: Apache-2.0
// From what nodes report to what is shown: old statuses, nodes that are named twice, names of any kind, what to do, and
// what is read out.
import assert from "node:assert/strict";
import { button, changing, counts, legend, open, reads, shows, test, title, until } from "./browser_page.mjs";

const nodes = (page) => page.locator(".topology li").allTextContents();
const groups = (page) => page.locator("section.group").count();
const next = (page) => page.locator(".next li:visible").allTextContents();

test("a node whose status is old does not respond: it has no actions, no rates and no part in the verdict", async (t) => {
  const { page, fake, pair } = await open(t, { prepare: (pair) => Object.assign(pair, { interval_ms: 1000 }) });
  fake.tick(3);
  const written = legend(page, "written by clients");
  await reads(written, /3\.1 MiB\/s$/);
  // The last status of paris is that of a primary, and lyon was promoted since.
  const old = structuredClone(pair.view().nodes[0]);
  pair.press("cut");
  pair.nodes[0].role = "secondary";
  pair.nodes[1].role = "primary";
  changing(pair, "view", (view) => ({ ...view, nodes: [{ ...old, age_ms: 12_000 }, view.nodes[1]] }));
  fake.tick(1);
  await reads(page.locator("#silent"), "paris: last status 12 s ago");
  assert.equal(await page.locator("#live").textContent(), "a status is old");
  assert.equal(await title(page), "AT RISK: db · helio");
  assert.equal(await button(page, "Pause: db on paris").count(), 0);
  assert.match((await nodes(page))[0], /^paris: secondary; .*; no status; as lyon reports/);
  fake.tick(2);
  assert.match(await legend(page, "received").textContent(), /–$/);
});

test("a status is old after three intervals, and not before 2.5 s", async (t) => {
  const { page, fake, pair } = await open(t);
  const age = { interval_ms: 1000, age_ms: 3000 };
  changing(pair, "view", (view) => ({
    ...view,
    interval_ms: age.interval_ms,
    nodes: view.nodes.map((node) => ({ ...node, age_ms: age.age_ms })),
  }));
  const live = page.locator("#live");
  const shown = async (interval_ms, age_ms, text) => {
    Object.assign(age, { interval_ms, age_ms });
    fake.tick(1);
    await until(
      () => live.textContent(),
      (now) => now === text,
      `${age_ms} ms of ${interval_ms} ms`,
    );
  };
  await shown(1000, 3001, "a status is old");
  await shown(1000, 3000, "live");
  await shown(100, 2501, "a status is old");
  await shown(100, 2500, "live");
});

test("a daemon that is named twice is one side, the one that responds", async (t) => {
  const { page, fake, pair } = await open(t);
  const error = { error: "cannot connect: timed out", code: "no-daemon", hint: null };
  let twin = {};
  changing(pair, "view", (view) => ({ ...view, nodes: [...view.nodes, { ...structuredClone(view.nodes[0]), ...twin }] }));
  fake.tick(2);
  await shows(page, "OK: db");
  assert.deepEqual(await page.locator(".node-actions h4").allTextContents(), ["paris", "lyon"]);
  assert.equal((await nodes(page)).length, 3);
  twin = { error };
  fake.tick(1);
  await shows(page, "no status from paris for 0 s");
  assert.ok(await button(page, "Pause: db on paris").isVisible());
  twin = {};
  pair.nodes[0].error = error;
  changing(pair, "view", (view) => {
    const db = { offers: pair.offers(pair.nodes[0]), forecast: null, snapshots: [] };
    Object.assign(view.nodes[2], { error: null, age_ms: 0, groups: { db } });
    return view;
  });
  pair.act = (request) => {
    pair.acts.push(request);
    return [200, { message: "done", warnings: [] }];
  };
  fake.tick(1);
  await button(page, "Pause: db on paris").click();
  await button(page, "Do it: Pause").click();
  await until(
    () => pair.acts.length,
    (count) => count === 1,
    "the request",
  );
  assert.equal(pair.acts[0].node, 2);
});

test("a third node of a group is shown as text", async (t) => {
  const { page, fake, pair } = await open(t);
  const failed = [{ name: "db", since_ms: pair.now(), reason: "no disk", hint: "`helio apply`" }];
  changing(pair, "view", (view) => {
    const third = structuredClone(view.nodes[1]);
    third.status.node = "oslo";
    const nodes = [...view.nodes, third];
    for (const { status } of nodes) Object.assign(status, { groups: [], failed });
    return { ...view, nodes };
  });
  fake.tick(1);
  await until(
    () => page.locator(".others li").allTextContents(),
    (all) => all.length === 1 && all[0] === "oslo: not served; no disk",
    "the third node",
  );
  assert.equal(await groups(page), 1);
});

for (const name of ["constructor", "toString", "__proto__"]) {
  test(`a group may be named ${name}`, async (t) => {
    const { page, fake, pair } = await open(t, { pair: { group: name } });
    changing(pair, "view", (view) => {
      for (const node of view.nodes) node.groups = {};
      return view;
    });
    fake.tick(2);
    await shows(page, `OK: ${name}`);
    await counts(page.locator(".node-actions", { hasText: "no action now" }), 2);
    assert.equal(await page.locator(".forecast:visible").count(), 0);
  });
}

test("a verdict that changed while the page was not live is read out, with the news that it is live", async (t) => {
  const { page, fake, pair } = await open(t);
  fake.tick(1);
  await shows(page, "OK: db");
  fake.send("gone", {});
  const announced = page.locator("#announced");
  await until(
    () => announced.textContent(),
    (text) => text.startsWith("The page is not live: helio dashboard ended"),
    "the end",
  );
  pair.press("cut");
  pair.time_ms += 4000;
  // The peer of the group is another one now.
  changing(pair, "view", (view) => {
    view.nodes.pop();
    view.nodes[0].status.groups[0].peer.name = "oslo";
    return view;
  });
  fake.view();
  await reads(announced, /^db: AT RISK: no message from lyon for 4 s\. The page is live again\.$/);
});

test("an advised button stands with the text that contains its command, never with nothing to do", async (t) => {
  const texts = { paris: "nothing", lyon: "`helio pause db` on paris, then repair the disk" };
  let advised = ["pause"];
  const { page, fake } = await open(t, {
    prepare: (pair) => {
      pair.next = (node) => texts[node.name];
      changing(pair, "offers", (all) => all.map((offer) => ({ ...offer, advised: advised.includes(offer.action) })));
    },
  });
  fake.tick(1);
  await until(
    () => next(page),
    ([text, ...more]) =>
      text === "do on lyonhelio pause db on paris, then repair the diskPause on paris" && more.length === 0,
    "the text of lyon",
  );
  advised = ["pause", "demote"];
  fake.tick(1);
  await until(
    () => next(page),
    (all) => all[1] === "do on parisStop serving clients, and become secondaryDemote on paris" && all.length === 2,
    "a text of its own",
  );
});

test("the timeline is in the order of arrival; alerts begin and end, and belong to the state", async (t) => {
  const { page, fake, pair } = await open(t);
  const change = (node, at_ms, changed) =>
    Object.assign(pair.record(pair.nodes[node], { event: "change", object: "group", name: "db", changed }).event, { at_ms });
  const now = pair.now();
  change(0, now, { lag_above: { old: false, new: true } });
  change(0, now + 9000, { lag_above: { old: true, new: false } });
  change(1, now - 60_000, { fault: { old: null, new: "the disk failed" } });
  change(1, now - 50_000, { role: { old: "secondary", new: "primary" } });
  change(1, now - 40_000, { generation: { old: "1", new: "2" } });
  fake.tick(1);
  const what = () => page.locator(".timeline li:visible .what").allTextContents();
  const all = [
    "generation 1 → 2",
    "role secondary → primary",
    "fault none → the disk failed",
    "alert ended: lag above",
    "alert began: lag above",
  ];
  await until(what, (texts) => JSON.stringify(texts) === JSON.stringify(all), "the events");
  await page.getByLabel("only state and verdict").check();
  assert.deepEqual(await what(), all.slice(1));
  // The oldest arrivals are evicted, although their times are the newest.
  for (let at = 0; at < 497; at += 1) change(1, now - 90_000, { role: { old: "a", new: `b${at}` } });
  fake.tick(1);
  await until(
    async () => (await what())[0],
    (text) => text === "role a → b496",
    "the last event",
  );
  assert.deepEqual((await what()).slice(-2), ["role secondary → primary", "fault none → the disk failed"]);
});

test("while no node responds, the link is unknown", async (t) => {
  const { page, fake, pair } = await open(t);
  for (const node of pair.nodes) node.running = false;
  fake.tick(1);
  await until(
    () => nodes(page),
    (all) => all[2] === "link: unknown",
    "the link",
  );
  assert.equal(await page.locator(".link .sign").getAttribute("d"), "");
});

test("a group that is gone leaves no observer and no plot", async (t) => {
  const script = () => {
    globalThis.observers = new Set();
    globalThis.ResizeObserver = class extends ResizeObserver {
      observe(element) {
        globalThis.observers.add(this);
        super.observe(element);
      }
      disconnect() {
        globalThis.observers.delete(this);
        super.disconnect();
      }
    };
  };
  const { page, fake, pair } = await open(t, { script });
  fake.tick(2);
  const observers = () => page.evaluate(() => globalThis.observers.size);
  assert.equal(await observers(), 5);
  changing(pair, "view", (view) => {
    for (const { status } of view.nodes) status.groups = [];
    return view;
  });
  fake.tick(1);
  await shows(page, "The nodes are in no group.");
  assert.equal(await groups(page), 0);
  assert.equal(await observers(), 0);
});
