import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NoStack, aggregate, eigen, fit, leastSquares, nnls, unusable } from '../../perfkit_widgets/static/live.js';

const f = (...values) => Float64Array.from(values);
const close = (found, expected, by = 1e-12) => {
  assert.equal(found.length, expected.length);
  found.forEach((value, i) => assert.ok(Math.abs(value - expected[i]) <= by, `${found} is not ${expected}`));
};

test('eigenvalues of a symmetric matrix', () => {
  const { values, vectors } = eigen([f(2, 1), f(1, 2)]);
  close([...values].sort(), [1, 3]);
  close([Math.abs(vectors[0][0]), Math.abs(vectors[1][0])], [Math.SQRT1_2, Math.SQRT1_2]);
});

test('least squares of a singular system is the shortest solution', () => {
  close(leastSquares([f(1, 1), f(1, 1)], f(2, 2)), [1, 1]);
  close(leastSquares([f(2, 0), f(0, 4)], f(2, 2)), [1, 0.5]);
});

test('non-negative least squares leaves at zero what would come out negative', () => {
  // Without the bound: x = (8/3, -4/3).
  close(nnls([f(1, 0.5), f(0.5, 1)], f(2, 0)), [2, 0], 1e-11);
  close(nnls([f(1, 0.5), f(0.5, 1)], f(2, 2)), [4 / 3, 4 / 3], 1e-11);
});

const counts = (n, events, row) => {
  const data = { events, cycles: new Float64Array(n), instructions: new Float64Array(n), counts: new Float64Array(n * events.length), segments: new Int32Array(n), at: [...Array(n).keys()] };
  for (let i = 0; i < n; i++) {
    const { cycles, instructions, ...rest } = row(i);
    [data.cycles[i], data.instructions[i]] = [cycles, instructions];
    events.forEach((event, j) => (data.counts[i * events.length + j] = rest[event]));
  }
  return data;
};
const settings = { form: 'ipc', method: 'nnls', weights: 'auto', sums: 1, folds: 5 };

test('a planted stack is found in either form', () => {
  const data = counts(40, ['a', 'b'], (i) => {
    const a = 10 + ((7 * i) % 13), b = 5 + ((3 * i) % 7), instructions = 1000 + 10 * i;
    return { a, b, instructions, cycles: 0.5 * instructions + 4 * a + 9 * b };
  });
  for (const form of ['ipc', 'cpi']) {
    for (const method of ['nnls', 'ols', 'huber']) {
      const found = fit(data, { ...settings, form, method });
      close([found.base, ...found.penalties], [0.5, 4, 9], 1e-9);
      close([found.r2, found.r2Blocked], [1, 1], 1e-9);
    }
  }
});

test('sums do not reach from one run into the next, and a shorter last group stays', () => {
  const data = counts(5, ['a'], (i) => ({ a: i, instructions: 1, cycles: 10 * i }));
  data.segments = [0, 0, 0, 1, 1];
  const summed = aggregate(data, 2);
  assert.deepEqual([...summed.counts], [1, 2, 7]);
  assert.deepEqual([summed.at, summed.segments], [[1, 2, 4], [0, 0, 1]]);
});

test('events that no regression can use are named with the reason', () => {
  const data = counts(30, ['a', 'twin', 'flat', 'never', 'alias'], (i) => {
    const a = 1000 + ((7 * i) % 13) * 100, instructions = 1e5 + 100 * i;
    return { a, twin: 2 * a, flat: instructions / 50, never: 0, alias: a + (i % 2), instructions, cycles: 3e5 + ((11 * i) % 17) * 1000 };
  });
  const found = unusable(data);
  assert.deepEqual([...found.keys()], ['twin', 'flat', 'never', 'alias']);
  assert.match(found.get('alias'), /counts what a counts/);
});

test('too few intervals give no stack, and the reason', () => {
  const data = counts(3, ['a', 'b'], (i) => ({ a: i * i + 1, b: 3 - i, instructions: 100, cycles: 200 + i }));
  assert.throws(() => fit(data, settings), NoStack);
});
