// SPDX-License-Identifier: Apache-2.0
// The plots of the page: rates, gaps, the clock, and the cursor.
import assert from "node:assert/strict";
import { button, changing, drawn, inked, legend, open, reads, shows, test, until } from "./browser_page.mjs";

/** Points at a second of the last minute. */
async function point(page, second) {
  const over = page.locator("figure", { hasText: "Latency of writes" }).locator(".u-over");
  const { width } = await over.boundingBox();
  await over.hover({ position: { x: width * (second / 60), y: 50 } });
}

test("plots move, and a node without a status is a gap and not a zero", async (t) => {
  const { page, fake, pair } = await open(t);
  fake.tick(3);
  const received = legend(page, "received");
  await reads(received, /MiB\/s/);
  const before = await inked(page, "Throughput");
  fake.tick(3);
  await until(
    () => inked(page, "Throughput"),
    (now) => now !== before,
    "the plot",
  );
  pair.press("kill", "lyon");
  fake.tick(1);
  await reads(received, /–$/);
  assert.equal(await page.locator("header.top .silent").textContent(), "no status from lyon for 1 s");
  await shows(page, "cannot connect: no daemon responds");
  const lyon = page.locator(".topology li").nth(1);
  await reads(lyon, "lyon: secondary; replicating; no status; as paris reports, 1 s ago");
});

test("the time in which a node did not respond is no part of a rate", async (t) => {
  const { page, fake, pair } = await open(t);
  fake.tick(3);
  const received = legend(page, "received");
  await reads(received, "received3.1 MiB/s");
  pair.nodes[1].error = { error: "cannot connect: timed out", code: "no-daemon", hint: null };
  fake.tick(3);
  await shows(page, "no status from lyon for 3 s");
  pair.nodes[1].error = null;
  fake.tick(1);
  await page.locator("#silent").waitFor({ state: "hidden" });
  assert.equal(await received.textContent(), "received–");
  fake.tick(1);
  await reads(received, "received3.1 MiB/s");
});

test("the cursor on one plot shows the values of that time in all of them", async (t) => {
  const { page, fake, pair } = await open(t);
  fake.tick(5);
  pair.press("cut");
  fake.tick(5);
  await button(page, "1 min").click();
  const sent = legend(page, /^sent/);
  await reads(sent, "sent0 B/s");
  await point(page, 54);
  await reads(sent, "sent3.1 MiB/s");
  assert.match(await page.locator(".plots .at").textContent(), /^at 21:30:0\dZ$/);
  await page.mouse.move(0, 0);
  await reads(sent, "sent0 B/s");
});

test("the plots go on when the node whose clock they follow is gone, although the other clock is behind", async (t) => {
  const { page, fake, pair } = await open(t);
  changing(pair, "status", (status, { name }) =>
    name === "lyon" ? { ...status, at_ms: status.at_ms - 60_000 } : status,
  );
  fake.tick(10);
  pair.press("kill", "paris");
  fake.tick(5);
  await shows(page, "no status from paris for 5 s");
  await button(page, "1 min").click();
  const written = legend(page, "written by clients");
  await reads(written, /–$/);
  await point(page, 50);
  await reads(written, /3\.1 MiB\/s$/);
});

test("a counter that goes back gives a gap", async (t) => {
  const { page, fake, pair } = await open(t);
  fake.tick(3);
  const written = legend(page, "written by clients");
  await reads(written, /MiB\/s/);
  pair.nodes[0].counters.write_bytes = 0;
  fake.view();
  await reads(written, /–$/);
  pair.time_ms += 1000;
  fake.view();
  await reads(written, "written by clients0 B/s");
  pair.nodes[0].counters.write_bytes = -5 * 2 ** 20;
  pair.time_ms += 1000;
  fake.view();
  await reads(written, /–$/);
});

test("a daemon that started again gives a gap, although its counters are beyond the last ones", async (t) => {
  const { page, fake, pair } = await open(t);
  let started_ms = 0;
  changing(pair, "status", (status) => ({ ...status, daemon_uptime_seconds: (pair.time_ms - started_ms) / 1000 }));
  fake.tick(3);
  const written = legend(page, "written by clients");
  await reads(written, /3\.1 MiB\/s$/);
  started_ms = pair.time_ms + 500;
  fake.tick(1);
  await reads(written, /–$/);
  fake.tick(1);
  await reads(written, /3\.1 MiB\/s$/);
});

test("the legend of a plot that is not on the screen follows what the nodes report", async (t) => {
  const { page, fake, pair } = await open(t, { height: 80, prepare: (pair) => void (pair.forecast = false) });
  const most = legend(page, "forecast: most");
  fake.tick(2);
  await shows(page, "virtual time 2 s");
  assert.ok(!(await most.isVisible()));
  // The browser reports what is on the screen with a frame.
  await drawn(page);
  pair.forecast = true;
  fake.tick(1);
  await most.waitFor();
});

test("the values of now are those of a node that responds, and a forecast without values has no table", async (t) => {
  let known = true;
  const { page, fake, pair } = await open(t, {
    prepare: (pair) => {
      const forecast = { ...pair.view().nodes[0].groups.db.forecast, source: "a plan" };
      const values = Object.entries(forecast).filter(([name]) => !["source", "advice"].includes(name));
      const none = { ...forecast, ...Object.fromEntries(values.map(([name]) => [name, null])) };
      changing(pair, "view", (all) => {
        for (const node of all.nodes) node.groups.db.forecast = known ? forecast : none;
        return all;
      });
    },
  });
  fake.tick(3);
  await legend(page, "mean of writes and flushes, last interval").waitFor();
  const most = page.locator(".forecast tr", { hasText: "queue, most" }).locator("td");
  await reads(most.nth(1), "3.1 MiB");
  pair.press("kill", "paris");
  fake.tick(1);
  await reads(most.nth(1), "–");
  known = false;
  fake.tick(1);
  await page.locator(".forecast table").waitFor({ state: "hidden" });
  await shows(page, "Source: a plan");
});
