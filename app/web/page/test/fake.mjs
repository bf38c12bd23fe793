// SPDX-License-Identifier: Apache-2.0
// Serves the page with a fake pair, as `helio dashboard --simulate` would. For development: `node test/fake.mjs [PORT]`.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { Pair } from "./pair.mjs";

const TOKEN = "token";
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
const FILES = {
  "": ["index.html", "text/html; charset=utf-8"],
  "app.js": ["app.js", "text/javascript; charset=utf-8"],
  "app.css": ["app.css", "text/css; charset=utf-8"],
};

/** A server that sends a view when `tick` is called, and after every request. */
export class Fake {
  constructor(pair) {
    this.pair = pair;
    this.streams = new Set();
    this.sent = 0;
    this.server = createServer((request, response) => this.serve(request, response));
  }

  async listen(port = 0) {
    await new Promise((done) => this.server.listen(port, "127.0.0.1", done));
    this.url = `http://127.0.0.1:${this.server.address().port}/${TOKEN}/`;
    return this;
  }

  async close() {
    this.hangUp();
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }

  /** Ends all streams; browsers connect again. */
  hangUp() {
    for (const stream of this.streams) stream.end();
    this.streams.clear();
  }

  /** So many seconds pass, each with a view. */
  tick(seconds = 1) {
    for (let second = 0; second < seconds; second += 1) {
      this.pair.step(1000);
      this.view();
    }
  }

  view() {
    // A new pair begins its list again.
    if (this.pair.happenings.length < this.sent) this.sent = 0;
    for (const happening of this.pair.happenings.slice(this.sent)) this.send("happening", happening);
    this.sent = this.pair.happenings.length;
    this.send("view", this.pair.view());
  }

  send(event, data, streams = this.streams) {
    for (const stream of streams) stream.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  serve(request, response) {
    response.setHeader("content-security-policy", CSP);
    response.setHeader("referrer-policy", "no-referrer");
    const path = request.url.startsWith(`/${TOKEN}/`) ? request.url.slice(TOKEN.length + 2) : null;
    if (request.method === "POST") return this.post(path, request, response);
    if (path === "live") return this.live(response);
    const file = FILES[path];
    if (!file) return void response.writeHead(404).end();
    response.setHeader("content-type", file[1]);
    response.end(readFileSync(new URL(`../../dist/${file[0]}`, import.meta.url)));
  }

  live(response) {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
    // A browser connects again at once.
    response.write("retry: 20\n\n");
    this.streams.add(response);
    response.on("close", () => this.streams.delete(response));
    for (const happening of this.pair.happenings.slice(-200)) this.send("happening", happening, [response]);
    this.sent = this.pair.happenings.length;
    this.send("view", this.pair.view(), [response]);
  }

  async post(path, request, response) {
    let text = "";
    for await (const chunk of request) text += chunk;
    const body = JSON.parse(text);
    const [status, answer] = path === "act" ? await this.pair.act(body) : this.pair.simulate(body);
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer));
    this.view();
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const fake = await new Fake(new Pair()).listen(Number(process.argv[2] ?? 0));
  console.log(fake.url);
  setInterval(() => {
    fake.pair.step(1000 * fake.pair.speed);
    fake.view();
  }, 1000);
}
