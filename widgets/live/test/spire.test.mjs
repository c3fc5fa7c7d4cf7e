// The built file itself is tested, not its sources: it is what ships.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SpireModel, fixed, percent } from '../../perfkit_widgets/static/live.js';

const f = (...values) => Float64Array.from(values);
// One event, the classic roofline min(4, I / 2), three samples of times 1, 1 and 2 in three intervals.
const model = (extra = {}) => new SpireModel({
  head: { events: [{ name: 'misses' }], unranked: {} },
  arrays: {
    offsets: Int32Array.of(0, 3), at: Int32Array.of(0, 1, 2), time: f(1, 1, 2), intensity: f(2, 100, Infinity), throughput: f(0.5, 3, 2),
    corner_offsets: Int32Array.of(0, 2), corner_x: f(0, 8), corner_y: f(0, 4), peak: f(8), at_infinity: f(3), least: f(4), most: f(Infinity),
    position: f(1, 2, 3), interval_time: f(1, 1, 2), interval_work: f(0.5, 3, 4), conflict: f(0, 0, 0), point_time: f(1, 1, 2), point_work: f(9, 9, 9),
    ...extra,
  },
});

test('the bound is the mean of the samples bounds, weighted with their time', () => {
  const { ranked, throughput } = model().rank(0, 2);
  assert.deepEqual(ranked, [{ event: 0, bound: (1 + 4 + 2 * 3) / 4, left: 1 / 4, outside: 1 / 4, n: 3 }]);
  assert.equal(throughput, 7.5 / 4);
});

test('a window takes its own intervals only', () => {
  assert.equal(model().rank(1, 1).ranked[0].bound, 4);
  assert.equal(model().rank(2, 2).ranked[0].bound, 3); // at infinity
  assert.equal(model().rank(0, 0).throughput, 0.5);
});

test('where the events of an interval disagree on its time, all samples are added up', () => {
  assert.equal(model({ conflict: f(0, 1, 0) }).rank(0, 1).throughput, 18 / 2);
  assert.equal(model({ conflict: f(0, 1, 0) }).rank(2, 2).throughput, 2);
});

test('an event without a sample in the window is not ranked', () => {
  assert.deepEqual(model({ at: Int32Array.of(0, 0, 2) }).rank(1, 1).ranked, []);
});

test('a number that rounds to zero has no sign', () => {
  assert.deepEqual([-0.001, -0.6, 0.001, -10].map((value) => fixed(value, 2)), ['0.00', '-0.60', '0.00', '-10.00']);
  assert.equal(percent(-0.001), '0 %');
});
