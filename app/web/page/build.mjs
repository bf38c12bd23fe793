// SPDX-License-Identifier: Apache-2.0
// Builds ../dist from src. The same sources give the same bytes: no date, no path, no source map.
// `node build.mjs --watch` builds again after every change.
import { readFile, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import * as esbuild from "esbuild";

process.chdir(new URL(".", import.meta.url).pathname);

/** Where the built page goes; a test compares one made elsewhere with the committed one. */
const DIST = process.env.HELIO_DIST ?? "../dist";
/** All files of dist together. */
const MOST_BYTES = 200 * 1024;
const LICENCE = "SPDX-License-Identifier: Apache-2.0";

const options = {
  entryPoints: { app: "src/main.ts" },
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  outdir: DIST,
  banner: {
    js: `// ${LICENCE}\n// Contains uPlot, (c) Leon Sorokin, MIT licence: see NOTICE.txt`,
    css: `/* ${LICENCE} */\n/* Contains uPlot, (c) Leon Sorokin, MIT licence: see NOTICE.txt */`,
  },
};

async function copies() {
  await writeFile(`${DIST}/index.html`, await readFile("src/index.html"));
  const { version } = JSON.parse(await readFile("node_modules/uplot/package.json", "utf8"));
  const licence = (await readFile("node_modules/uplot/LICENSE", "utf8")).trim();
  const notice = `app.js and app.css contain uPlot ${version}, https://github.com/leeoniya/uPlot:\n\n${licence}\n`;
  await writeFile(`${DIST}/NOTICE.txt`, notice);
}

async function sizes() {
  let all = 0;
  for (const name of ["index.html", "app.js", "app.css", "NOTICE.txt"]) {
    const bytes = await readFile(`${DIST}/${name}`);
    all += bytes.length;
    console.log(`${name.padEnd(12)} ${bytes.length} B, ${gzipSync(bytes).length} B with gzip`);
  }
  console.log(`together     ${all} B of at most ${MOST_BYTES} B`);
  if (all > MOST_BYTES) {
    console.error("the page is too large: remove code, or raise MOST_BYTES in build.mjs and say why");
    process.exitCode = 1;
  }
}

if (process.argv.includes("--watch")) {
  await copies();
  await (await esbuild.context({ ...options, logLevel: "info" })).watch();
} else {
  await esbuild.build(options);
  await copies();
  await sizes();
}
