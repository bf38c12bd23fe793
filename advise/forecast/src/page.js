// SPDX-License-Identifier: Apache-2.0
const COLOURS = { sync: "#d1495b", nearsync: "#2e86ab", async: "#3a9b6e" };
const SVG = "http://www.w3.org/2000/svg";
const KEYS = [["link", "Link"], ["buffer", "Buffers"], ["queue", "Queue"]];
const choice = {};

const bytes = (n) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 1024 && at < 4) { n /= 1024; at++; }
  return (n >= 100 || Number.isInteger(n) ? n.toFixed(0) : n.toPrecision(3)) + " " + units[at];
};
const micros = (n) =>
  n < 1000 ? n.toFixed(0) + " µs" : n < 1e6 ? +(n / 1e3).toPrecision(3) + " ms" : +(n / 1e6).toPrecision(3) + " s";
const seconds = (ms) => (ms < 1e3 && ms > 0 ? ms.toFixed(0) + " ms" : ms < 1e4 ? +(ms / 1e3).toPrecision(3) + " s" : ms < 6e5 ? (ms / 1e3).toFixed(0) + " s" : (ms / 6e4).toFixed(0) + " min");

// Steps between ticks that people count in.
const powers = (base, of, most) => Array.from({ length: most }, (_, n) => of.map((k) => k * base ** n)).flat();
const BYTES = powers(1024, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512], 5);
const clock = (second) => [...powers(10, [1, 2, 5], 8).filter((n) => n < 60 * second && n !== 50 * second), ...[1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440].map((n) => n * 60 * second)];
const MILLIS = clock(1e3);
const LOGS = powers(10, [1, 3], 12);
const ticksTo = (most, steps) => {
  const step = steps.find((n) => most / n <= 6) || steps[steps.length - 1];
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, n) => n * step);
};

function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  return made;
}

// A plot of curves [{mode, points: [[x, y]]}] with ticks and words for both axes.
function plot(title, curves, options) {
  const [W, H, L, R, T, B] = [560, 260, 62, 22, 8, 26];
  const figure = document.createElement("figure");
  const head = document.createElement("h2");
  head.textContent = title;
  figure.append(head);
  // A logarithm has no zero: where nothing was answered there is no point.
  if (options.log) curves = curves.map((curve) => ({ ...curve, points: curve.points.map(([x, y]) => [x, y > 0 ? y : NaN]) }));
  const all = curves.flatMap((curve) => curve.points).filter(([, y]) => !Number.isNaN(y));
  if (all.length === 0) {
    figure.append("nothing to show");
    return figure;
  }
  const xs = all.map((p) => p[0]), ys = all.map((p) => p[1]);
  const [x0, x1] = [Math.min(...xs), Math.max(...xs) || 1];
  let [y0, y1] = [0, Math.max(...ys, options.bound || 0) * 1.05 || 1];
  if (options.log) {
    // From a tick to a tick.
    const [least, most] = [Math.min(...ys), Math.max(...ys)];
    y0 = Math.log10(LOGS.filter((t) => t <= least).pop() || least);
    y1 = Math.log10(LOGS.find((t) => t > least && t >= most) || most);
  }
  const px = (x) => L + ((x - x0) / (x1 - x0 || 1)) * (W - L - R);
  const py = (y) => {
    const at = options.log ? Math.log10(y) : y;
    return H - B - ((at - y0) / (y1 - y0 || 1)) * (H - T - B);
  };
  const svg = element("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title });
  for (const [from, to] of options.outages || []) {
    const [left, right] = [px(Math.max(from, x0)), px(Math.min(to, x1))];
    if (right <= left) continue;
    const shade = element("rect", { class: "outage", x: left, y: T, width: right - left, height: H - T - B });
    shade.append(element("title", {}, "the link is down"));
    svg.append(shade);
  }
  const ticks = options.log
    ? LOGS.filter((t) => Math.log10(t) >= y0 && Math.log10(t) <= y1)
    : ticksTo(y1, options.ysteps);
  for (const tick of ticks) {
    svg.append(element("line", { class: "grid", x1: L, x2: W - R, y1: py(tick), y2: py(tick) }));
    svg.append(element("text", { x: L - 6, y: py(tick) + 4, "text-anchor": "end" }, options.y(tick)));
  }
  const marks = options.xticks || ticksTo(x1, MILLIS).filter((mark) => mark >= x0);
  for (const mark of marks) svg.append(element("text", { x: px(mark), y: H - 8, "text-anchor": "middle" }, options.x(mark)));
  if (options.bound) {
    svg.append(element("line", { class: "bound", x1: L, x2: W - R, y1: py(options.bound), y2: py(options.bound) }));
  }
  for (const curve of curves) {
    // A new stretch behind each gap: where there is no point, and between the windows of a sample.
    const steps = curve.points.slice(1).map((p, n) => p[0] - curve.points[n][0]).sort((a, b) => a - b);
    const usual = steps[steps.length >> 1] || 0;
    let pen = null;
    const d = curve.points.map(([x, y]) => {
      if (Number.isNaN(y)) { pen = null; return ""; }
      const on = pen !== null && (options.xticks || (x > pen && x - pen <= 4 * usual));
      pen = x;
      const to = px(x).toFixed(1) + " " + py(y).toFixed(1);
      return on ? "L" + to : "M" + to + "h0";
    }).join("");
    const line = element("path", { class: "curve", d, stroke: COLOURS[curve.mode] });
    line.append(element("title", {}, curve.mode));
    svg.append(line);
  }
  figure.append(svg);
  const key = document.createElement("div");
  key.className = "key";
  for (const curve of curves) {
    const entry = document.createElement("span"), dash = document.createElement("i");
    dash.style.background = COLOURS[curve.mode];
    entry.append(dash, curve.mode + (curve.note ? ": " + curve.note : ""));
    key.append(entry);
  }
  figure.append(key);
  return figure;
}

const nines = (percent) => (percent >= 100 ? 4.5 : -Math.log10(1 - percent / 100));

function draw() {
  const shown = DATA.cells.filter((cell) => cell.figures && KEYS.every(([key]) => String(cell[key]) === choice[key]));
  const curves = (of, note) => shown.map((cell) => ({ mode: cell.mode, points: of(cell.figures), note: note && note(cell.figures) })).filter((c) => c.points.length);
  const percentiles = (name) => (f) => f[name].curve.map(([p, v]) => [nines(p), v]);
  const over = (name) => (f) => f.series.map((s) => [s.at_ms, s[name]]);
  const bound = Math.max(0, ...shown.map((cell) => cell.figures.queue_bound));
  const time = { x: seconds, outages: DATA.outages };
  const xp = [0.301, 1, 2, 3, 4, 4.5];
  const wordp = (x) => ({ 0.301: "50 %", 1: "90 %", 2: "99 %", 3: "99.9 %", 4: "99.99 %", 4.5: "most" })[x];
  document.getElementById("plots").replaceChildren(
    plot("Writes: so many are answered within", curves(percentiles("writes"), (f) => "p50 " + micros(f.writes.p50) + ", p99 " + micros(f.writes.p99)), { log: true, y: micros, x: wordp, xticks: xp }),
    plot("Flushes: so many are answered within", curves(percentiles("flushes")), { log: true, y: micros, x: wordp, xticks: xp }),
    plot("99th percentile of writes over time", curves(over("p99_us")), { ...time, y: micros, log: true }),
    plot("Lag over time: accepted, not at the peer", curves(over("lag")), { ...time, y: bytes, ysteps: BYTES }),
    plot("Queue over time, and its bound", curves(over("queue"), (f) => "at most " + bytes(f.queue_high)), { ...time, y: bytes, ysteps: BYTES, bound }),
    plot("Age of the peer's image over time", curves(over("behind_ms"), (f) => "p99 " + micros(f.behind.p99)), { ...time, y: seconds, ysteps: MILLIS }),
  );
}

function begin() {
  const form = document.getElementById("choice");
  const first = DATA.cells[DATA.chosen ?? 0];
  if (!first) return;
  for (const [key, word] of KEYS) {
    choice[key] = String(first[key]);
    const values = [...new Set(DATA.cells.map((cell) => String(cell[key])))];
    const label = document.createElement("label"), select = document.createElement("select");
    for (const value of values) select.append(new Option(key === "buffer" ? bytes(+value) : value, value, false, value === choice[key]));
    select.addEventListener("change", () => { choice[key] = select.value; draw(); });
    label.append(word, select);
    form.append(label);
  }
  draw();
}
begin();
