// SPDX-License-Identifier: Apache-2.0
// All tests, in one browser and several at a time: most of their time is spent waiting for it. Some of them:
// `node --test --test-name-pattern=TEXT test/all.test.mjs`.
import { after, describe, it } from "node:test";
import { endBrowser, failed, tests } from "./browser_page.mjs";
import "./choices.mjs";
import "./dialog.mjs";
import "./form.mjs";
import "./page.mjs";
import "./plots.mjs";
import "./simulation.mjs";
import "./view.mjs";

after(async () => {
  await endBrowser();
  // The test in Rust that runs these looks for this text.
  if (failed.late > 0 && failed.wrong === 0) console.log("every failed test waited in vain");
});

describe("the page", { concurrency: 4 }, () => {
  for (const { name, run } of tests) it(name, run);
});
