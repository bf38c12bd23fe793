// SPDX-License-Identifier: Apache-2.0
// What one view costs in the browser, with its layout: `node test/cost.mjs`. Medians of 40 views in milliseconds, after 600 views of history.
import { endBrowser, open } from "./browser_page.mjs";

const VIEWS = 40;
const HISTORY = 600;

/** Times the page's handler of views, and the layout after it; runs in the page. */
function timed() {
  globalThis.costs = [];
  globalThis.EventSource = class extends EventSource {
    addEventListener(name, listener) {
      const measured = (event) => {
        const began = performance.now();
        listener(event);
        document.body.getBoundingClientRect();
        globalThis.costs.push(performance.now() - began);
      };
      super.addEventListener(name, name === "view" ? measured : listener);
    }
  };
}

/** Each view of the pair has so many groups. */
function several(pair, groups) {
  const one = pair.view.bind(pair);
  pair.view = () => {
    const view = one();
    for (const node of view.nodes) {
      const [group] = node.status.groups;
      const of = (at) => ({ ...group, name: `db${String(at).padStart(3, "0")}` });
      node.status.groups = Array.from({ length: groups }, (_, at) => of(at));
      node.groups = Object.fromEntries(node.status.groups.map(({ name }) => [name, node.groups.db]));
    }
    return view;
  };
}

/** `all`: whether all groups are open. */
async function cost(groups, all) {
  const ends = [];
  const run = { after: (end) => void ends.push(end) };
  const { page, fake } = await open(run, { pair: { simulated: false }, prepare: (pair) => several(pair, groups), script: timed });
  const taken = (count) => page.waitForFunction((count) => globalThis.costs.length >= count, count, { timeout: 600_000, polling: 20 });
  await taken(1);
  let sent = 1;
  const views = async (count) => {
    for (let at = 0; at < count; at += 1) {
      fake.tick(1);
      sent += 1;
      if (sent % 20 === 0) await taken(sent);
    }
    await taken(sent);
  };
  await views(HISTORY);
  if (all) await page.evaluate(() => document.querySelectorAll('.title button[aria-expanded="false"]').forEach((it) => it.click()));
  await page.evaluate(() => (globalThis.costs = []));
  sent = 0;
  for (let at = 0; at < VIEWS; at += 1) {
    fake.tick(1);
    sent += 1;
    await taken(sent);
  }
  const costs = (await page.evaluate(() => globalThis.costs)).sort((a, b) => a - b);
  const elements = await page.evaluate(() => document.querySelectorAll("*").length);
  console.log(`${groups} groups, ${all ? "open" : "collapsed"}: ${costs[VIEWS / 2].toFixed(1)} ms a view, ${elements} elements`);
  for (const end of ends) await end();
}

for (const [groups, all] of [[1, true], [20, true], [20, false], [500, false]]) await cost(groups, all);
await endBrowser();
