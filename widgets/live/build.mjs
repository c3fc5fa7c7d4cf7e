// Builds ../perfkit_widgets/static/live.js from src/: one module, nothing left to load. With --check: fails where the
// file that is there is another.
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { build } from 'esbuild';

const here = new URL('./', import.meta.url);
const target = new URL('../perfkit_widgets/static/live.js', here);

// The digest that tests/widgets/test_live_built.py computes as well, without node.
const digest = createHash('sha256');
for (const name of readdirSync(new URL('src/', here)).sort()) {
  digest.update(`${name}\0`).update(readFileSync(new URL(`src/${name}`, here))).update('\0');
}
const made = await build({
  entryPoints: [new URL('src/live.ts', here).pathname],
  bundle: true,
  format: 'esm',
  target: 'es2022',
  minify: true,
  charset: 'utf8',
  legalComments: 'none',
  write: false,
});
const body = made.outputFiles[0].text;
const text = `// Built by widgets/live/build.mjs; do not edit.\n// sources: ${digest.digest('hex')}\n// body: ${createHash('sha256').update(body).digest('hex')}\n${body}`;
if (!process.argv.includes('--check')) writeFileSync(target, text);
else if (readFileSync(target, 'utf8') !== text) {
  console.error('static/live.js is not what its sources build: run npm run build in widgets/live');
  process.exit(1);
}
