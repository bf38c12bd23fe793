// SPDX-License-Identifier: Apache-2.0
// What a person sees, and what the keyboard does: the built page in a browser, with a fake pair behind it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Pair } from "./pair.mjs";
import { button, changing, clock, counts, legend, open, reads, shows, skip, test, title, titled, until } from "./browser_page.mjs";

/** A row of facts by its label. */
const fact = (page, label) =>
  page.locator(".group .facts > div", { has: page.locator("dt", { hasText: new RegExp(`^${label}$`) }) }).locator("dd");

test("a healthy pair is shown with its verdict in words, nodes, rates and the forecast", async (t) => {
  const { page, fake } = await open(t);
  fake.tick(5);
  await shows(page, "lyon follows in order, 0 B behind");
  assert.equal(await title(page), "OK: db · helio");
  assert.equal(await page.locator("header.top .verdict").textContent(), "OK: db");
  const nodes = await page.locator(".topology li").allTextContents();
  assert.match(nodes[0], /^paris: primary; replicating, consistent; data 256 MiB · \/dev\/vg0\/paris-data; 2 clients$/);
  assert.match(nodes[1], /^lyon: secondary; replicating, consistent/);
  assert.match(nodes[2], /^link: connected; data goes from paris to lyon; round trip 20\.1 ms; 3\.1 MiB\/s$/);
  const written = legend(page, "written by clients");
  assert.match(await written.textContent(), /3\.1 MiB\/s/);
  const row = page.locator(".forecast tr", { hasText: "latency p99" });
  assert.deepEqual(await row.locator("td").allTextContents(), ["420 µs", "450 µs"]);
});

test("the fake pair sends every field that the API requires", () => {
  const schemas = JSON.parse(readFileSync(new URL("../../../../docs/reference/openapi.json", import.meta.url), "utf8"))
    .components.schemas;
  const pair = new Pair();
  pair.press("cut");
  pair.step(60_000);
  pair.press("restore");
  pair.step(1000);
  const missing = (value, schema, path) => {
    if (value === null || typeof value !== "object") return [];
    const named = schema.$ref ?? schema.anyOf?.find((it) => it.$ref)?.$ref;
    if (named) return missing(value, schemas[named.split("/").at(-1)], path);
    if (Array.isArray(value)) return value.flatMap((item, at) => missing(item, schema.items ?? {}, `${path}[${at}]`));
    const own = (schema.required ?? []).filter((name) => !(name in value)).map((name) => `${path}.${name}`);
    return [
      ...own,
      ...Object.entries(schema.properties ?? {}).flatMap(([name, it]) =>
        missing(value[name] ?? null, it, `${path}.${name}`),
      ),
    ];
  };
  for (const node of pair.view().nodes) assert.deepEqual(missing(node.status, schemas.Status, "status"), []);
  assert.ok(pair.view().nodes[0].status.groups[0].sync !== null);
});

test("a cut link is shown at once, with what each node advises, until the resync has ended", async (t) => {
  const { page, fake, pair } = await open(t);
  const isConnected = (expected) => until(() => pair.connected(), (now) => now === expected, "the link");
  fake.tick(3);
  await button(page, "Cut the link").click();
  await isConnected(false);
  fake.tick(15);
  await titled(page, "AT RISK: db · helio");
  await shows(page, "no message from lyon for 15 s");
  assert.equal(await page.locator("#announced").textContent(), "db: AT RISK: no message from lyon for 0 s");
  assert.deepEqual(await page.locator(".next .where").allTextContents(), ["do on paris", "do on lyon"]);
  assert.match(await fact(page, "not on lyon").textContent(), /^46\.8 MiB in 3000 writes$/);
  await shows(page, /^73 %; full in \d s$/);
  fake.tick(40);
  await button(page, "Restore the link").click();
  await isConnected(true);
  fake.tick(3);
  await shows(page, /MiB copied \(\d+ %\), .* done in/);
  assert.ok((await page.locator("progress").evaluate((bar) => bar.value)) > 0);
  assert.match(await page.locator(".topology li").nth(2).textContent(), /resync \d+ %/);
  fake.tick(60);
  await titled(page, "OK: db · helio");
  assert.ok(!(await page.locator(".resync").isVisible()));
  const changes = await page.locator(".timeline li .what").allTextContents();
  assert.equal(changes[0], "verdict AT RISK → OK, state syncing → replicating");
  assert.equal(changes.at(-1), "verdict OK → AT RISK, state replicating → queuing");
  await shows(page, "First steps: 2 of 5 done");
});

test("a resync that never ends says so", async (t) => {
  const { page, fake, pair } = await open(t);
  pair.press("cut");
  fake.tick(40);
  Object.assign(pair.settings, { rate_mbit: 1 });
  pair.press("restore");
  fake.tick(3);
  await shows(page, /will not converge at this write rate/);
  const row = page.locator(".forecast tr", { hasText: "resync converges" });
  assert.deepEqual(await row.locator("td").allTextContents(), ["no, at this write rate", "no"]);
});

test("two primaries that are not connected are a split brain, although neither node reports it", async (t) => {
  const { page, fake, pair } = await open(t);
  pair.press("cut");
  pair.nodes[1].role = "primary";
  fake.tick(2);
  await titled(page, "SPLIT BRAIN: db · helio");
  await shows(page, "paris and lyon are primary and not connected");
});

test("a split brain is resolved by the advised button, after a confirmation", async (t) => {
  const { page, fake, pair } = await open(t);
  fake.tick(2);
  pair.press("kill", "paris");
  pair.failOver(pair.nodes[0]);
  pair.press("start", "paris");
  fake.tick(3);
  await titled(page, "SPLIT BRAIN: db · helio");
  assert.match(await fact(page, "only lyon").textContent(), /^at most .* MiB, last write/);
  assert.match(await page.locator(".topology li").nth(2).textContent(), /^link: refused/);
  const paris = page.getByRole("group", { name: "Keep the writes of lyon, discard those of paris" });
  assert.match(await paris.textContent(), /only on paris: at most .* MiB, last write/);
  assert.equal(await page.getByRole("group", { name: "Keep the writes of paris, discard those of lyon" }).count(), 1);
  const buttons = paris.getByRole("button");
  assert.deepEqual(await buttons.allTextContents(), ["Demote on paris", "Discard paris on paris"]);
  assert.ok(await buttons.nth(1).isDisabled());
  await button(paris, "Demote on paris").click();
  await button(page, "Do it: Demote").click();
  await button(paris, "Discard paris on paris").click();
  const dialog = page.getByRole("dialog", { name: "Discard paris: db on paris" });
  await dialog.waitFor();
  assert.match(await dialog.textContent(), /Discard the writes that exist only on paris/);
  assert.match(await dialog.textContent(), /helio resolve db --discard paris/);
  await button(dialog, "Do it: Discard paris").click();
  await shows(page, "resolve of db on paris: done");
  const request = { node: 0, group: "db", input: null, confirmed: false };
  assert.deepEqual(pair.acts, ["demote", "resolve"].map((action) => ({ ...request, action })));
  await page.locator(".choices").waitFor({ state: "hidden" });
  fake.tick(3);
  await titled(page, "OK: db · helio");
});

test("what may lose data needs the name of the group, and a repeated Enter does not confirm it", async (t) => {
  const { page, fake, pair } = await open(t);
  pair.press("cut");
  fake.tick(3);
  await button(page, "Promote on lyon").focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Cancel");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  const second = page.getByRole("dialog", { name: "Data may be lost: Promote, db on lyon" });
  await second.waitFor();
  assert.match(await second.textContent(), /at most \d+ KiB that paris acknowledged and lyon never received/);
  const confirm = button(second, "Do it nevertheless: Promote");
  assert.ok(await confirm.isDisabled());
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Cancel");
  await page.keyboard.press("Enter");
  await second.waitFor({ state: "detached" });
  assert.equal(pair.acts.filter((act) => act.confirmed).length, 0);
  await button(page, "Promote on lyon").click();
  await button(page, "Do it: Promote").click();
  await second.getByLabel("Type the name of the group to confirm: db").fill("dbx");
  assert.ok(await confirm.isDisabled());
  await second.getByRole("textbox").fill("db");
  await confirm.click();
  await shows(page, "promote of db on lyon: done");
  assert.deepEqual(pair.acts.at(-1), { node: 1, group: "db", action: "promote", input: null, confirmed: true });
});

test("the keyboard alone creates a snapshot, and Escape leaves without doing anything", async (t) => {
  const { page, fake, pair } = await open(t);
  fake.tick(2);
  const snapshot = button(page, "Snapshot: db on paris");
  await snapshot.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.ok(await snapshot.evaluate((element) => element === document.activeElement));
  assert.deepEqual(pair.acts, []);
  await page.keyboard.press("Enter");
  await page.getByLabel("Name of the snapshot").focus();
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.type("before-upgrade");
  await page.getByRole("dialog").getByText("helio snapshot create db@before-upgrade").waitFor();
  fake.tick(2);
  await page.keyboard.press("Enter");
  await shows(page, "snapshot of db on paris: done");
  assert.equal(pair.acts[0].input, "before-upgrade");
  await page.locator(".snapshots th", { hasText: "before-upgrade" }).waitFor();
  await page.getByRole("button", { name: "Dismiss: Snapshot: db on paris" }).press("Enter");
  await page.getByText("snapshot of db on paris: done").waitFor({ state: "detached" });
});

test("a refusal is shown with its hint until it is dismissed", async (t) => {
  const { page, fake } = await open(t);
  await page.getByText("more actions").first().click();
  await button(page, "Verify: db on paris").click();
  await button(page, "Do it: Verify").click();
  await shows(page, "cannot verify db: a verify runs already");
  await shows(page, "helio verify stop db");
  fake.tick(30);
  await shows(page, /^virtual time 30 s/);
  await shows(page, "cannot verify db: a verify runs already");
});

test("an update keeps focus, an open list and an open dialog; an action that is no longer offered cannot be done", async (t) => {
  const { page, fake, pair } = await open(t);
  const more = page.getByText("more actions").first();
  await more.click();
  await button(page, "Pause: db on paris").click();
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  fake.tick(3);
  await shows(page, /^virtual time 3 s/);
  assert.ok(await dialog.isVisible());
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Cancel");
  pair.nodes[0].role = "secondary";
  fake.tick(1);
  await dialog.getByText("This action is no longer offered").waitFor();
  assert.equal(await button(dialog, "Do it: Pause").count(), 0);
  await button(dialog, "Cancel").click();
  assert.ok(await button(page, "Switch: db on paris").isVisible());
});

test("a page that receives nothing says so, keeps the last values, and is live again", async (t) => {
  const { page, fake, pair, problems } = await open(t, {
    script: clock,
    prepare: (pair) => Object.assign(pair, { interval_ms: 1000 }),
  });
  fake.tick(3);
  await shows(page, "OK: db");
  await skip(page, 3000);
  const live = page.locator("#live");
  await reads(live, /^no response for [3-9] s$/);
  assert.equal(await title(page), "NOT LIVE, last OK: db · helio");
  assert.ok(await page.evaluate(() => document.body.classList.contains("stale")));
  await button(page, "Pause: db on paris").click();
  await button(page, "Do it: Pause").click();
  await shows(page, "The page is not live");
  assert.deepEqual(pair.acts, []);
  await page.keyboard.press("Escape");
  fake.tick(1);
  await reads(live, "live");
  assert.equal(await title(page), "OK: db · helio");
  fake.send("gone", {});
  await reads(live, /^helio dashboard ended \d s ago$/);
  fake.hangUp();
  await until(
    () => fake.streams.size,
    (size) => size > 0,
    "a new connection",
  );
  await reads(live, "live");
  assert.deepEqual(problems, []);
});

test("events that the server sends again after a reconnect are shown once", async (t) => {
  const { page, fake, pair } = await open(t);
  pair.press("cut");
  fake.tick(2);
  const items = page.locator(".timeline li");
  await counts(items, 2);
  fake.hangUp();
  await until(
    () => fake.streams.size,
    (size) => size > 0,
    "a new connection",
  );
  pair.press("restore");
  fake.tick(2);
  await counts(items, pair.happenings.length);
});

test("the timeline is filtered and bounded", async (t) => {
  const { page, fake, pair } = await open(t);
  for (let at = 0; at < 520; at += 1) {
    const changed = at % 2 ? { clients: { old: 1, new: 2 } } : { state: { old: "queuing", new: "logging" } };
    pair.record(pair.nodes[at % 2], {
      event: "change",
      object: at % 2 ? "volume" : "group",
      name: at % 2 ? "data" : "db",
      changed,
    });
  }
  fake.tick(1);
  const items = page.locator(".timeline li");
  await counts(items, 500);
  const visible = () => page.locator(".timeline li:visible").count();
  await page.getByLabel("only state and verdict").check();
  assert.equal(await visible(), 250);
  await page.getByLabel("Node", { exact: true }).selectOption("lyon");
  assert.equal(await visible(), 0);
  await page.getByLabel("only state and verdict").uncheck();
  assert.equal(await visible(), 250);
  assert.match(await page.locator(".timeline li:visible").first().textContent(), /lyon, db\/dataclients 1 → 2/);
});

test("unknown words and a group that is not served are shown as they are", async (t) => {
  const { page, fake, pair } = await open(t);
  pair.state = () => "dreaming";
  fake.tick(1);
  await reads(page.locator(".topology li").first(), /dreaming, consistent/);
  const failed = { name: "db", since_ms: pair.now(), hint: "`helio apply`", needs_restart: false };
  let failing = ["lyon"];
  changing(pair, "status", (status, { name }) =>
    failing.includes(name)
      ? { ...status, groups: [], failed: [{ ...failed, reason: `the metadata of ${name} is damaged` }] }
      : status,
  );
  fake.tick(1);
  assert.equal(await fact(page, "lyon").textContent(), "not served: the metadata of lyon is damaged");
  assert.deepEqual(await page.locator(".next li").allTextContents(), ["do on lyonhelio apply"]);
  assert.equal(await title(page), "OK: db · helio");
  failing = ["lyon", "paris"];
  fake.tick(1);
  await titled(page, "NOT SERVED: db · helio");
  await shows(page, "on paris: the metadata of paris is damaged; on lyon: the metadata of lyon is damaged");
  assert.equal(await page.locator("section.group").count(), 1);
});

test("when volumes were verified, a restore, and writes at the full queue are rows of the facts", async (t) => {
  const { page, fake, pair } = await open(t);
  changing(pair, "status", (status, { role }) => {
    if (role !== "primary") return status;
    const [group] = status.groups;
    group.volumes[0].verified = { at_ms: status.at_ms - 90_000, differed_bytes: 2 ** 20, repaired: true };
    group.restoring = { snapshot: "before-upgrade", left_bytes: 2 ** 30, failed: null };
    Object.assign(group.throttle, { refused: 1, dropped: 2 });
    return status;
  });
  fake.tick(1);
  await reads(fact(page, "verified"), "data 1 min 30 s ago, 1 MiB differed, and were copied");
  await reads(fact(page, "restoring"), "from before-upgrade, 1 GiB left");
  await reads(fact(page, "refused"), "1 write failed at the full queue");
  await reads(fact(page, "dropped"), "2 times: the queue was full, and only dirty regions were recorded");
});

test("flushes, attached devices, a peer with another key and an inconsistent snapshot are shown", async (t) => {
  const { page, fake, pair } = await open(t);
  changing(pair, "status", (status, { role }) => {
    if (role === "primary") status.groups[0].answers.flushes = { count: 12, p50_us: 900, p99_us: 15_000, most_us: 20_000 };
    return status;
  });
  const device = { group: "db", volume: "data", reason: null, via: "ublk", read_only: false, path: "/dev/helio/db/data" };
  pair.attachments = [
    { ...device, on: "paris", state: "attached", used_by: ["postgres (812)"] },
    { ...device, on: "lyon", state: "waiting", reason: "lyon is secondary", used_by: [] },
  ];
  pair.wrong_key = { key: "KEY", address: "10.0.0.9:4242", age_seconds: 7 };
  const snapshot = { name: "one", at_ms: pair.now(), preserved_bytes: 65536, missing: null };
  pair.snapshots = [{ ...snapshot, consistent: false }];
  fake.tick(1);
  await reads(fact(page, "flushes"), "12 flushes, p50 900 µs, p99 15.0 ms");
  await reads(fact(page, "attached on paris"), "data at /dev/helio/db/data, used by postgres (812)");
  await reads(fact(page, "attached on lyon"), "data: waiting, lyon is secondary");
  await reads(fact(page, "refused by paris"), "10.0.0.9:4242 connected 7 s ago with a key that is not the one of lyon: KEY");
  await reads(page.locator(".snapshots td").last(), "64 KiB on paris, inconsistent; 64 KiB on lyon, inconsistent");
});

test("no node responds: the verdict is not known", async (t) => {
  const { page, fake, pair } = await open(t);
  for (const node of pair.nodes) node.running = false;
  fake.tick(2);
  await titled(page, "UNKNOWN: db · helio");
  await shows(page, "no node responds; paris reported OK last");
});

test("a node that only its peer can see is marked as such, and groups of the same name stay apart", async (t) => {
  const { page, fake, pair } = await open(t);
  changing(pair, "view", (all) => {
    const other = structuredClone(all.nodes[0]);
    const rename = (group) => ({ ...group, node: "oslo", peer: { ...group.peer, name: "bergen" } });
    Object.assign(other, {
      label: "oslo:7420",
      status: { ...other.status, node: "oslo", groups: other.status.groups.map(rename) },
    });
    return { ...all, nodes: [...all.nodes, other] };
  });
  fake.tick(2);
  await counts(page.locator("section.group"), 2);
  await until(
    () => page.locator(".topology li").allTextContents(),
    (all) => all.some((text) => /^bergen: secondary; replicating; not asked; as oslo reports/.test(text)),
    "bergen",
  );
  assert.equal(await page.locator("#overview a").count(), 2);
});
