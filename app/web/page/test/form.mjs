// SPDX-License-Identifier: Apache-2.0
// The form of the page: hostile names, widths, contrast, colours, and what an update touches.
import assert from "node:assert/strict";
import { button, changing, drawn, inked, open, shows, test, title, until } from "./browser_page.mjs";

test("hostile names are inert text, in every place", async (t) => {
  const bad = '<img src=x onerror="alert(1)">\u202etxet\u0007' + "w".repeat(90);
  const { page, fake, pair } = await open(t, { pair: { names: [bad, "lyon"], group: `g${bad}` }, width: 320 });
  pair.press("cut");
  fake.tick(3);
  await until(
    () => title(page),
    (now) => now.startsWith("AT RISK: g<img src=x"),
    "the title",
  );
  const found = await page.evaluate(() => ({
    images: document.querySelectorAll("img").length,
    text: document.documentElement.textContent,
    title: document.title,
    attributes: [...document.querySelectorAll("*")]
      .flatMap((element) => [...element.attributes].map((it) => it.value))
      .join("\n"),
    wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
  }));
  assert.equal(found.images, 0);
  for (const text of [found.text, found.title, found.attributes]) assert.doesNotMatch(text, /[\u202a-\u202e\u0007]/);
  assert.match(found.text, /\ufffdtxet\ufffd/);
  assert.equal(found.wide, false);
  await page.getByRole("button", { name: /^Promote on lyon/ }).click();
  await page.getByRole("button", { name: "Do it: Promote" }).click();
  await page.getByRole("dialog", { name: /^Data may be lost/ }).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false);
});

test("of many groups only those that are not well are open, and the verdict leads to the worst", async (t) => {
  const names = ["archive", "db", "logs", "mail"];
  const { page, fake } = await open(t, {
    prepare: (pair) => {
      const of = (group, name) => {
        const verdict =
          name === "logs" ? { ...group.verdict, word: "at-risk", why: "a verify found differences" } : group.verdict;
        return { ...group, name, verdict };
      };
      changing(pair, "view", (all) => {
        for (const { status } of all.nodes) status.groups = names.map((name) => of(status.groups[0], name));
        return all;
      });
    },
  });
  fake.tick(2);
  assert.equal(await title(page), "AT RISK: logs · helio");
  const bodies = page.locator(".group-body");
  assert.deepEqual(await bodies.evaluateAll((all) => all.map((it) => !it.hidden)), [false, false, true, false]);
  await page.locator("header.top .verdict").press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement?.querySelector("h2")?.textContent), "logs");
  await button(page, "Details").first().click();
  assert.ok(await bodies.first().isVisible());
  await until(
    () => inked(page, "Throughput"),
    (drawn) => drawn.length > 1000,
    "the plot of archive",
  );
});

test("a closed group has no details, and what cannot be seen is not drawn", async (t) => {
  const names = ["archive", "db", "logs"];
  const script = () => {
    globalThis.drawn = 0;
    const { clearRect } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.clearRect = function (...given) {
      globalThis.drawn += 1;
      clearRect.apply(this, given);
    };
  };
  const { page, fake } = await open(t, {
    script,
    prepare: (pair) =>
      changing(pair, "view", (all) => {
        for (const { status } of all.nodes) status.groups = names.map((name) => ({ ...status.groups[0], name }));
        return all;
      }),
  });
  fake.tick(2);
  await shows(page, "virtual time 2 s");
  assert.equal(await page.locator(".group-body > *").count(), 0);
  await button(page, "Details").first().click();
  await until(
    () => page.evaluate(() => globalThis.drawn),
    (count) => count >= 4,
    "the plots",
  );
  assert.equal(await page.locator(".group-body > *").count(), 3);
  // Below the screen, and on a page that is hidden.
  await page.setViewportSize({ width: 1280, height: 80 });
  await page.evaluate(() => scrollTo(0, 0));
  await drawn(page);
  await page.evaluate(() => (globalThis.drawn = 0));
  fake.tick(2);
  await shows(page, "virtual time 4 s");
  assert.equal(await page.evaluate(() => globalThis.drawn), 0);
  await page.evaluate(() => Object.defineProperty(document, "hidden", { value: true, configurable: true }));
  const facts = page.locator(".group .since").first();
  const before = await facts.textContent();
  fake.tick(120);
  await shows(page, "virtual time 2 min 4 s");
  assert.equal(await facts.textContent(), before);
  await page.evaluate(() => {
    delete document.hidden;
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await until(
    () => facts.textContent(),
    (text) => text !== before,
    "the present text",
  );
});

for (const width of [320, 640, 1280, 1920]) {
  test(`nothing is wider than the page at ${width} px`, async (t) => {
    const { page, fake, pair } = await open(t, { width });
    pair.advice = [
      {
        label: "queue",
        verdict: "watch",
        what: "the queue holds 20 s of writes",
        do: "`helio queue set db --memory 128MiB`",
      },
    ];
    fake.tick(2);
    pair.press("cut");
    fake.tick(30);
    const wide = await page.evaluate(() => {
      const most = document.documentElement.clientWidth;
      const outside = [...document.querySelectorAll("body *:not(.visually-hidden, .visually-hidden *, .skip)")].filter(
        (it) => it.getBoundingClientRect().right > most + 0.5,
      );
      return outside.map((it) => `${it.tagName} ${it.className}`);
    });
    assert.deepEqual(
      wide.filter((it) => !it.startsWith("OPTION")),
      [],
    );
  });
}

for (const scheme of ["light", "dark"]) {
  test(`texts have a contrast of at least 4.5 in the ${scheme} scheme`, async (t) => {
    const { page, fake, pair } = await open(t, { scheme, script: contrast });
    pair.advice = ["change", "watch", "well", "unknown"].map((verdict) => ({
      label: verdict,
      verdict,
      what: "something",
      do: null,
    }));
    fake.tick(2);
    for (const scene of ["ok", "cut", "disk", "kill"]) {
      if (scene === "cut") pair.press("cut");
      if (scene === "disk") pair.press("fail-disk", "paris");
      if (scene === "kill") pair.press("kill", "lyon");
      fake.tick(2);
      const poor = await page.evaluate(contrasts);
      assert.deepEqual(poor, [], scene);
    }
  });
}

for (const scheme of ["light", "dark"]) {
  test(`borders of inputs have a contrast of at least 3 in the ${scheme} scheme`, async (t) => {
    const { page } = await open(t, { scheme, script: contrast });
    await button(page, "Snapshot: db on paris").click();
    const poor = await page.evaluate(borders);
    assert.deepEqual(poor, []);
  });
}

test("the head of a small page scrolls away, and a slider reads out its value once", async (t) => {
  const { page } = await open(t, { width: 600 });
  const position = () => page.locator("header.top").evaluate((head) => getComputedStyle(head).position);
  assert.equal(await position(), "static");
  await page.setViewportSize({ width: 700, height: 900 });
  assert.equal(await position(), "sticky");
  assert.equal(await page.locator(".slider output").count(), 0);
  assert.equal(await page.locator(".slider .chosen[aria-hidden=true]").count(), 4);
});

test("the chosen colours are kept", async (t) => {
  const { page, fake } = await open(t, { scheme: "light" });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const before = await ground();
  await page.getByLabel("Colours").selectOption("dark");
  assert.notEqual(await ground(), before);
  await page.reload();
  fake.tick(1);
  assert.notEqual(await ground(), before);
});

test("an update changes no text that is the same, and makes no element again", async (t) => {
  const { page, fake, pair } = await open(t);
  Object.assign(pair.settings, { writes_per_second: 0 });
  fake.tick(3);
  await shows(page, "0 B/s");
  await page.evaluate(() => {
    globalThis.changes = [];
    new MutationObserver((list) => globalThis.changes.push(...list.map((it) => it.target.nodeName))).observe(
      document.body,
      { childList: true, characterData: true, attributes: true, subtree: true },
    );
  });
  const view = structuredClone(pair.view());
  for (let at = 0; at < 3; at += 1) fake.send("view", view);
  Object.assign(pair.settings, { writes_per_second: 100 });
  fake.send("view", { ...view, simulation: { ...view.simulation, clients: "This is the last view." } });
  await shows(page, "This is the last view.");
  const changes = await page.evaluate(() => globalThis.changes);
  assert.deepEqual(changes, ["P"]);
  fake.tick(1);
  await shows(page, "1.5 MiB/s");
  const made = await page.evaluate(() =>
    globalThis.changes.filter((name) => ["UL", "SECTION", "TBODY", "DL", "svg", "g"].includes(name)),
  );
  assert.deepEqual(made, []);
});

/** Defines what `borders` and `contrasts` measure with; runs in the page. */
function contrast() {
  const luminance = (numbers) => {
    const [r, g, b] = numbers.map((value) => value / 255);
    const channel = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  };
  globalThis.parse = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
  globalThis.contrast = (one, other) => {
    const [a, b] = [luminance(one), luminance(other)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
}

/** Inputs whose border has a contrast below 3 with what is around them; runs in the page. */
function borders() {
  const inputs = [...document.querySelectorAll('select, input[type="text"], button:not(.primary, [aria-pressed="true"])')];
  const ratios = inputs.map((input) => {
    const { borderTopColor, backgroundColor } = getComputedStyle(input);
    const ratio = globalThis.contrast(globalThis.parse(borderTopColor), globalThis.parse(backgroundColor));
    return { text: `${input.tagName} ${input.textContent}`, ratio };
  });
  return ratios.length > 10 ? ratios.filter(({ ratio }) => ratio < 3) : ["no inputs"];
}

/** Texts whose contrast with what is behind them is below 4.5; runs in the page. */
function contrasts() {
  const { parse, contrast } = globalThis;
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, alpha = 1] = parse(getComputedStyle(at).backgroundColor);
      if (alpha === 1 && r !== undefined) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== "");
    if (
      !own ||
      element.closest(".visually-hidden, [hidden], .skip, noscript, script, :disabled") ||
      element.getClientRects().length === 0
    )
      continue;
    const style = getComputedStyle(element);
    const drawn = element.ownerSVGElement;
    const card = drawn ? element.closest("g")?.querySelector("rect") : null;
    const ground = card && element.closest(".card") ? parse(getComputedStyle(card).fill) : behind(element);
    const ratio = contrast(parse(drawn ? style.fill : style.color), ground);
    if (ratio < 4.5)
      poor.push(
        `${element.tagName} ${element.className.baseVal ?? element.className}: ${ratio.toFixed(2)}: ${element.textContent.slice(0, 40)}`,
      );
  }
  return poor;
}
