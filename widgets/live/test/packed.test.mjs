import assert from 'node:assert/strict';
import { test } from 'node:test';
import { short, unpack } from '../../perfkit_widgets/static/live.js';

// At an odd place of a larger buffer, as a comm delivers it.
function bytes(head, magic = 'PKLIVE01') {
  let text = new TextEncoder().encode(JSON.stringify(head));
  text = new Uint8Array([...text, ...new Array((8 - (text.length % 8)) % 8).fill(32)]);
  const all = new Uint8Array(3 + 16 + text.length + 16);
  all.set(new TextEncoder().encode(magic), 3);
  const view = new DataView(all.buffer, 3);
  view.setUint32(8, text.length, true);
  all.set(text, 19);
  view.setFloat64(16 + text.length, 0.1, true);
  view.setFloat32(24 + text.length, 0.5, true);
  return [view, 16 + text.length];
}

test('arrays are read at their places, whatever the place of the whole', () => {
  let at = 0, view;
  for (let i = 0; i < 3; i++) [view, at] = bytes({ title: 'ü', arrays: { x: ['f8', at, 1], y: ['f4', at + 8, 1] } });
  const { head, arrays } = unpack(view);
  assert.equal(head.title, 'ü');
  assert.deepEqual([...arrays.x, ...arrays.y], [0.1, 0.5]);
});

test('what is no model is refused', () => {
  assert.throws(() => unpack(bytes({ arrays: {} }, 'PK\u0003\u0004abcd')[0]), /expected a model/);
});

test('numbers are written as Python writes them', () => {
  const said = [0, 0.000123, 0.00001, 1.5, 999.96, 1234.5, 12345, 1234567, 2.5e13, 1e17, NaN, -Infinity].map((v) => short(v));
  assert.deepEqual(said, ['0', '0.000123', '1e-05', '1.5', '1e+03', '1,235', '12.3k', '1.23M', '25T', '1e+17', '–', '-∞']);
});
