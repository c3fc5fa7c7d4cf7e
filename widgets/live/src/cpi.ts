// CPI stacks in the browser: exact refits of any stretch, as perfkit.fitters.cpi makes them.
//
// The counts themselves travel (0.2 MB for 1471 intervals of 15 events): their moments over a stretch take less than a
// millisecond, so that no sums need to be kept, and a last step on the residuals brings back what normal equations lose.
import { eigen, leastSquares, nnls, zeros, type Matrix } from './solve';

export type Form = 'ipc' | 'cpi';
export type Method = 'nnls' | 'ols' | 'huber';
export type Weights = 'auto' | 'cycles' | 'instructions' | 'none';

// n intervals of k events; counts by row.
export interface Counts {
  events: string[];
  cycles: Float64Array;
  instructions: Float64Array;
  counts: Float64Array;
  segments: ArrayLike<number>; // of one run and place: equal numbers, in order
  at: ArrayLike<number>; // which interval of the whole each is (of sums, the last)
}

export interface Settings {
  form: Form;
  method: Method;
  weights: Weights;
  sums: number; // intervals that are added up before the fit
  folds: number;
}

export interface CpiFit {
  data: Counts;
  leftOut: { event: string; reason: string }[];
  base: number;
  penalties: Float64Array;
  components: Float64Array; // of the base, then of each event
  other: Float64Array; // the same by the other form
  cpi: number;
  r2: number;
  r2Blocked: number;
  predicted: Float64Array; // CPI of each interval
  vif: Float64Array; // variance inflation of each event; infinite where it is, to rounding, a combination of others
}

export class NoStack extends Error {}

const sum = (values: ArrayLike<number>): number => {
  let total = 0;
  for (let i = 0; i < values.length; i++) total += values[i]!;
  return total;
};

// Some of the intervals and events.
export function select(data: Counts, first: number, last: number, events: string[]): Counts {
  const k = data.events.length, places = events.map((event) => data.events.indexOf(event)), n = last - first + 1;
  const counts = new Float64Array(n * events.length);
  for (let i = 0; i < n; i++) for (let j = 0; j < places.length; j++) counts[i * places.length + j] = data.counts[(first + i) * k + places[j]!]!;
  return {
    events, counts,
    cycles: data.cycles.slice(first, last + 1),
    instructions: data.instructions.slice(first, last + 1),
    segments: Array.prototype.slice.call(data.segments, first, last + 1),
    at: Array.prototype.slice.call(data.at, first, last + 1),
  };
}

// Sums over each `size` consecutive intervals of a run and place; a shorter last group stays.
export function aggregate(data: Counts, size: number): Counts {
  if (size === 1) return data;
  const n = data.cycles.length, k = data.events.length, starts: number[] = [];
  for (let i = 0, length = 0; i < n; i++) {
    length = i > 0 && data.segments[i] === data.segments[i - 1] && length < size ? length + 1 : 1;
    if (length === 1) starts.push(i);
  }
  const added = (values: Float64Array, width: number): Float64Array => {
    const out = new Float64Array(starts.length * width);
    starts.forEach((start, g) => {
      for (let i = start; i < (starts[g + 1] ?? n); i++) for (let j = 0; j < width; j++) out[g * width + j]! += values[i * width + j]!;
    });
    return out;
  };
  return {
    events: data.events, cycles: added(data.cycles, 1), instructions: added(data.instructions, 1), counts: added(data.counts, k),
    segments: starts.map((start) => data.segments[start]!),
    at: starts.map((_, g) => data.at[(starts[g + 1] ?? n) - 1]!),
  };
}

// Events that no regression can use, with the reason (perfkit.fitters.cpi.checks.unusable_events).
export function unusable(data: Counts): Map<string, string> {
  const n = data.cycles.length, k = data.events.length, out = new Map<string, string>();
  const column = (j: number, over?: Float64Array): Float64Array => {
    const out = new Float64Array(n);
    for (let i = 0; i < n; i++) out[i] = over ? data.counts[i * k + j]! / over[i]! : data.counts[i * k + j]!;
    return out;
  };
  const rates = data.events.map((_, j) => column(j, data.cycles));
  const lengths = rates.map((rate) => Math.sqrt(sum(rate.map((value) => value * value))));
  const constant = (values: Float64Array): boolean => {
    let low = Infinity, high = -Infinity;
    for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
    return high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high));
  };
  const alike = (i: number, j: number): boolean => {
    let along = 0;
    for (let row = 0; row < n; row++) along += rates[i]![row]! * rates[j]![row]!;
    return along / ((lengths[i] || 1) * (lengths[j] || 1)) > 1 - 1e-13;
  };
  const counted = data.events.map((_, j) => column(j));
  const seen = counted.map((values) => n >= 20 && sum(values) / n >= 100);
  const same = (i: number, j: number): boolean => {
    const a = counted[i]!, b = counted[j]!, place = 0.9 * (n - 1), apart = new Float64Array(n);
    for (let row = 0, far = 0; row < n; row++) {
      apart[row] = Math.abs(a[row]! - b[row]!) / Math.max((a[row]! + b[row]!) / 2, 1);
      // So many that the nine tenths lie among those that are far apart.
      if (apart[row]! >= 0.01 && ++far > n - Math.floor(place)) return false;
    }
    apart.sort();
    const low = apart[Math.floor(place)]!, high = apart[Math.min(n - 1, Math.floor(place) + 1)]!;
    return low + (high - low) * (place - Math.floor(place)) < 0.01;
  };
  data.events.forEach((event, j) => {
    const before = [...Array(j).keys()];
    const twin = before.find((i) => alike(i, j));
    if (lengths[j] === 0) out.set(event, `is zero in all ${n} intervals`);
    else if (n > 1 && (constant(rates[j]!) || constant(column(j, data.instructions)))) out.set(event, 'comes at one constant rate, which cannot be told from the base');
    else if (twin !== undefined) out.set(event, `is a fixed multiple of ${data.events[twin]} in every interval`);
    else if (seen[j]) {
      const other = before.find((i) => same(i, j));
      if (other !== undefined) out.set(event, `counts what ${data.events[other]} counts, under another name`);
    }
  });
  return out;
}

// A weighted linear model: rows of [1, columns, target] and their weights.
interface System {
  n: number;
  width: number;
  Z: Float64Array;
  weights: Float64Array;
}

function build(data: Counts, form: Form, kind: Weights): System {
  const n = data.cycles.length, k = data.events.length, width = k + 2, Z = new Float64Array(n * width);
  const over = form === 'ipc' ? data.cycles : data.instructions, target = form === 'ipc' ? data.instructions : data.cycles, sign = form === 'ipc' ? -1 : 1;
  for (let i = 0; i < n; i++) {
    Z[i * width] = 1;
    for (let j = 0; j < k; j++) Z[i * width + 1 + j] = (sign * data.counts[i * k + j]!) / over[i]!;
    Z[i * width + width - 1] = target[i]! / over[i]!;
  }
  const chosen = kind === 'auto' ? (form === 'ipc' ? 'cycles' : 'instructions') : kind;
  const raw = chosen === 'none' ? new Float64Array(n).fill(1) : data[chosen], mean = sum(raw) / n;
  return { n, width, Z, weights: raw.map((value) => value / mean) };
}

function moments({ width, Z, weights }: System, from: number, to: number, factor?: Float64Array): Matrix {
  const M = zeros(width, width);
  for (let i = from; i < to; i++) {
    const w = factor ? weights[i]! * factor[i]! : weights[i]!, at = i * width;
    for (let a = 0; a < width; a++) {
      const left = w * Z[at + a]!, row = M[a]!;
      for (let b = a; b < width; b++) row[b]! += left * Z[at + b]!;
    }
  }
  for (let a = 0; a < width; a++) for (let b = 0; b < a; b++) M[a]![b] = M[b]![a]!;
  return M;
}

function solve(M: Matrix, method: Method): Float64Array {
  const m = M.length - 1, scale = Float64Array.from({ length: m }, (_, i) => Math.sqrt(M[i]![i]!) || 1);
  const G = zeros(m, m), h = new Float64Array(m);
  for (let i = 0; i < m; i++) {
    h[i] = M[i]![m]! / scale[i]!;
    for (let j = 0; j < m; j++) G[i]![j] = M[i]![j]! / (scale[i]! * scale[j]!);
  }
  return (method === 'ols' ? leastSquares(G, h) : nnls(G, h)).map((value, i) => value / scale[i]!);
}

function residuals({ n, width, Z }: System, x: Float64Array): Float64Array {
  const out = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    let value = Z[i * width + width - 1]!;
    for (let j = 0; j < x.length; j++) value -= Z[i * width + j]! * x[j]!;
    out[i] = value;
  }
  return out;
}

function median(values: Float64Array): number {
  const sorted = values.slice().sort(), n = sorted.length;
  return (sorted[(n - 1) >> 1]! + sorted[n >> 1]!) / 2;
}

// Reweights least squares until it settles (Huber): rows far off count in proportion to 1/distance.
function huber(system: System, start: Float64Array | null): [Float64Array, Float64Array] {
  const { n, width, Z, weights } = system;
  let x = start ?? solve(moments(system, 0, n), 'nnls'), factor = new Float64Array(n).fill(1), target = 0;
  for (let i = 0; i < n; i++) target += Z[i * width + width - 1]! / n;
  for (let step = 0; step < (start ? 4 : 25); step++) {
    const distance = residuals(system, x).map((value, i) => Math.abs(value * Math.sqrt(weights[i]!)));
    const spread = 1.4826 * median(distance);
    if (spread <= 1e-14 * Math.abs(target)) break;
    factor = distance.map((value) => Math.min(1, (1.345 * spread) / Math.max(value, 1e-300)));
    const next = solve(moments(system, 0, n, factor), 'nnls');
    let moved = 0, most = 0;
    for (let i = 0; i < x.length; i++) [moved, most] = [Math.max(moved, Math.abs(next[i]! - x[i]!)), Math.max(most, Math.abs(next[i]!))];
    x = next;
    if (moved <= 1e-6 * most) break;
  }
  return [x, factor];
}

// One least squares step on the residuals themselves, for the unknowns that are free.
function polish(system: System, x: Float64Array, method: Method, factor?: Float64Array): Float64Array {
  const { n, width, Z, weights } = system, free = [...x.keys()].filter((i) => method === 'ols' || x[i]! > 0), f = free.length;
  if (!f) return x;
  const left = residuals(system, x), lengths = new Float64Array(f), G = zeros(f, f), gradient = new Float64Array(f);
  for (let i = 0; i < n; i++) {
    const w = factor ? weights[i]! * factor[i]! : weights[i]!, at = i * width;
    for (let a = 0; a < f; a++) {
      const one = w * Z[at + free[a]!]!;
      gradient[a]! += one * left[i]!;
      for (let b = a; b < f; b++) G[a]![b]! += one * Z[at + free[b]!]!;
    }
  }
  for (let a = 0; a < f; a++) lengths[a] = Math.sqrt(G[a]![a]!) || 1;
  for (let a = 0; a < f; a++) {
    gradient[a]! /= lengths[a]!;
    for (let b = a; b < f; b++) G[a]![b] = G[b]![a] = G[a]![b]! / (lengths[a]! * lengths[b]!);
  }
  const step = leastSquares(G, gradient), out = x.slice();
  free.forEach((place, a) => (out[place]! += step[a]! / lengths[a]!));
  return method === 'ols' ? out : out.map((value) => Math.max(value, 0));
}

function squaredError(M: Matrix, x: Float64Array): number {
  const z = [...x, -1];
  let total = 0;
  for (let i = 0; i < z.length; i++) for (let j = 0; j < z.length; j++) total += z[i]! * M[i]![j]! * z[j]!;
  return Math.max(total, 0);
}

function squaredSpread(M: Matrix): number {
  const last = M.length - 1, spread = Math.max(M[last]![last]! - M[0]![last]! ** 2 / M[0]![0]!, 0);
  return spread > 1e-14 * M[last]![last]! ? spread : NaN;
}

function varianceInflation(M: Matrix): Float64Array {
  const k = M.length - 2, n = M[0]![0]!, mean = (j: number): number => M[0]![j + 1]! / n;
  const C = zeros(k, k);
  for (let i = 0; i < k; i++) for (let j = 0; j < k; j++) C[i]![j] = M[i + 1]![j + 1]! / n - mean(i) * mean(j);
  const deviation = C.map((row, i) => Math.sqrt(Math.max(row[i]!, 0)) || 1);
  const { values, vectors } = eigen(C.map((row, i) => row.map((value, j) => (i === j ? 1 : value / (deviation[i]! * deviation[j]!)))));
  return Float64Array.from({ length: k }, (_, i) => {
    const vif = sum(values.map((value, j) => vectors[i]![j]! ** 2 / Math.max(value, 1e-12)));
    return vif > 1e9 ? Infinity : vif;
  });
}

// R2 over all rows, each predicted by the fit to the other stretches of time.
function crossValidated(system: System, method: Method, folds: number, whole: Matrix, x: Float64Array): number {
  const { n, width, Z, weights } = system, count = Math.min(folds, n), starts = [0];
  for (let f = 0; f < count; f++) starts.push(starts[f]! + Math.floor(n / count) + (f < n % count ? 1 : 0));
  if (count < 2 || n - Math.ceil(n / count) <= x.length) return NaN;
  let error = 0;
  for (let f = 0; f < count; f++) {
    const [from, to] = [starts[f]!, starts[f + 1]!], part = moments(system, from, to);
    let found: Float64Array;
    if (method === 'huber') {
      const keep = (values: Float64Array, each: number): Float64Array => {
        const out = new Float64Array(values.length - (to - from) * each);
        out.set(values.subarray(0, from * each));
        out.set(values.subarray(to * each), from * each);
        return out;
      };
      found = huber({ n: n - (to - from), width, Z: keep(Z, width), weights: keep(weights, 1) }, x)[0];
    } else found = solve(whole.map((row, i) => row.map((value, j) => value - part[i]![j]!)), method);
    error += squaredError(part, found);
  }
  return 1 - error / squaredSpread(whole);
}

function solved(data: Counts, { method, weights }: Settings, form: Form): { system: System; x: Float64Array; stack: Float64Array } {
  const system = build(data, form, weights);
  const [rough, factor] = method === 'huber' ? huber(system, null) : [solve(moments(system, 0, system.n), method), undefined];
  const x = polish(system, rough, method, factor);
  // An IPC at zero misses of zero or below has no base CPI.
  const a = x[0]! > 0 ? x[0]! : NaN;
  return { system, x, stack: form === 'cpi' ? x : x.map((value, i) => (i ? value / a : 1 / a)) };
}

// A stack of some counts. Throws NoStack, with the reason, where there can be none.
export function fit(source: Counts, settings: Settings): CpiFit {
  const summed = aggregate(source, settings.sums), useless = unusable(summed);
  const data = select(summed, 0, summed.cycles.length - 1, summed.events.filter((event) => !useless.has(event)));
  const n = data.cycles.length, k = data.events.length;
  const leftOut = [...useless].map(([event, reason]) => ({ event, reason }));
  if (!k) throw new NoStack('no event is left to explain the CPI with');
  if (n < k + 2) throw new NoStack(`${n} interval${n === 1 ? '' : 's'} cannot tell ${k + 1} unknowns apart: at least ${k + 2} are needed. Widen the window, or take events out`);
  const { system, x, stack } = solved(data, settings, settings.form);
  const other = solved(data, settings, settings.form === 'ipc' ? 'cpi' : 'ipc').stack;
  const work = sum(data.instructions), rates = Float64Array.from({ length: k }, (_, j) => {
    let total = 0;
    for (let i = 0; i < n; i++) total += data.counts[i * k + j]!;
    return total / work;
  });
  const parts = (found: Float64Array): Float64Array => found.map((value, i) => (i ? value * rates[i - 1]! : value));
  const whole = moments(system, 0, n);
  const predicted = Float64Array.from({ length: n }, (_, i) => {
    let cycles = 0;
    for (let j = 0; j < k; j++) cycles += data.counts[i * k + j]! * stack[1 + j]!;
    return stack[0]! + cycles / data.instructions[i]!;
  });
  return {
    data, leftOut, predicted, vif: varianceInflation(whole), base: stack[0]!, penalties: stack.slice(1), components: parts(stack), other: parts(other), cpi: sum(data.cycles) / work,
    r2: 1 - squaredError(whole, x) / squaredSpread(whole), r2Blocked: crossValidated(system, settings.method, settings.folds, whole, x),
  };
}
