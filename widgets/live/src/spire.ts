// SPIRE in the browser: the ranking of any stretch of intervals (Wendt, Ketkar, Bertacco, section III-C, Eq. 1).
//
// A roofline is piecewise linear and never changes, so the bound of a sample is worked out once; a ranking is a weighted
// mean. All of it is what perfkit.fitters.spire does, but for the bootstrap spread.
import type { Head, Packed } from './packed';

export interface SpireEvent {
  name: string;
  area: string;
  colour: string;
  n_training: number;
}

export interface SpireHead extends Head {
  events: SpireEvent[];
  unranked: Record<string, number>; // status -> how many events have no roofline
  throughput: string; // the words for work per time
  work: string;
  unit: string; // of positions: seconds or intervals
  runs: [string, number][]; // each run, and its first interval
  training_kind: string;
  caveats: string[];
  top: number;
}

export interface Ranked {
  event: number; // of head.events
  bound: number;
  left: number; // the share of time at or left of the peak
  outside: number; // the share of time at intensities that training did not reach
  n: number;
}

export interface Ranking {
  ranked: Ranked[]; // lowest bound first
  throughput: number;
}

// Where the sorted values begin to be at least `wanted`, from `low` on and before `high`.
export function lowerBound(values: ArrayLike<number>, wanted: number, low = 0, high = values.length): number {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

// numpy.interp on the corners from..to, and the value at infinity.
export function bound(x: ArrayLike<number>, y: ArrayLike<number>, from: number, to: number, atInfinity: number, intensity: number): number {
  if (intensity === Infinity) return atInfinity;
  if (intensity >= x[to - 1]!) return y[to - 1]!;
  if (intensity <= x[from]!) return y[from]!;
  const j = lowerBound(x, intensity, from, to);
  if (x[j] === intensity) return y[j]!;
  const slope = (y[j]! - y[j - 1]!) / (x[j]! - x[j - 1]!);
  return slope * (intensity - x[j - 1]!) + y[j - 1]!;
}

export class SpireModel {
  readonly bounds: Float64Array; // of each sample
  private readonly left: Uint8Array; // whether a sample lies at or left of the peak
  private readonly outside: Uint8Array; // whether training did not reach its intensity

  constructor(readonly packed: Packed<SpireHead>) {
    const { offsets, time, intensity, corner_offsets, corner_x, corner_y, peak, at_infinity, least, most } = packed.arrays as Record<string, Float64Array>;
    const n = time!.length;
    this.bounds = new Float64Array(n);
    this.left = new Uint8Array(n);
    this.outside = new Uint8Array(n);
    for (let e = 0; e < packed.head.events.length; e++) {
      const from = corner_offsets![e]!, to = corner_offsets![e + 1]!;
      // A sample without the event is at the peak only where nothing finite is.
      const alone = corner_y!.subarray(from, to).every((y) => at_infinity![e]! > y);
      for (let i = offsets![e]!; i < offsets![e + 1]!; i++) {
        const at = intensity![i]!;
        this.bounds[i] = bound(corner_x!, corner_y!, from, to, at_infinity![e]!, at);
        this.left[i] = at <= peak![e]! && (Number.isFinite(at) || alone) ? 1 : 0;
        this.outside[i] = at < least![e]! || at > most![e]! ? 1 : 0;
      }
    }
  }

  get intervals(): number {
    return this.packed.arrays.position!.length;
  }

  // The samples of an event in the intervals first to last, both included.
  samples(event: number, first: number, last: number): [number, number] {
    const { offsets, at } = this.packed.arrays;
    const low = offsets![event]!, high = offsets![event + 1]!;
    return [lowerBound(at!, first, low, high), lowerBound(at!, last + 1, low, high)];
  }

  rank(first: number, last: number): Ranking {
    const ranked: Ranked[] = [], times = this.packed.arrays.time!;
    this.packed.head.events.forEach((_, event) => {
      const [from, to] = this.samples(event, first, last);
      let time = 0, bounded = 0, left = 0, outside = 0;
      for (let i = from; i < to; i++) {
        const one = times[i]!;
        time += one;
        bounded += one * this.bounds[i]!;
        if (this.left[i]) left += one;
        if (this.outside[i]) outside += one;
      }
      if (from < to) ranked.push({ event, bound: bounded / time, left: left / time, outside: outside / time, n: to - from });
    });
    // Bounds that only rounding tells apart stay in the order of the samples.
    const place = new Map(ranked.map((one) => [one, Number(one.bound.toPrecision(13))]));
    ranked.sort((one, two) => place.get(one)! - place.get(two)! || one.event - two.event);
    return { ranked, throughput: this.throughput(first, last) };
  }

  // Total work over total time, each interval once; over all samples where the events of an interval disagree on it.
  throughput(first: number, last: number): number {
    const { interval_time, interval_work, point_time, point_work, conflict } = this.packed.arrays;
    const sum = (values: ArrayLike<number>): number => {
      let total = 0;
      for (let i = first; i <= last; i++) total += values[i]!;
      return total;
    };
    const once = sum(conflict!) === 0;
    const time = sum(once ? interval_time! : point_time!), work = sum(once ? interval_work! : point_work!);
    return time > 0 ? work / time : NaN;
  }
}
