// Least squares on normal equations, as perfkit.fitters.cpi.solvers does it: a few dozen unknowns.

export type Matrix = Float64Array[]; // rows

export const zeros = (rows: number, columns: number): Matrix => Array.from({ length: rows }, () => new Float64Array(columns));

// Eigenvalues and eigenvectors (columns) of a symmetric matrix, by Jacobi's rotations.
export function eigen(A: Matrix): { values: Float64Array; vectors: Matrix } {
  const n = A.length, a = A.map((row) => row.slice()), v = zeros(n, n);
  for (let i = 0; i < n; i++) v[i]![i] = 1;
  for (let sweep = 0; sweep < 60; sweep++) {
    let off = 0, on = 0;
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) i === j ? (on += a[i]![i]! ** 2) : (off += a[i]![j]! ** 2);
    if (off <= 1e-32 * on || off === 0) break;
    for (let p = 0; p < n; p++) {
      for (let q = p + 1; q < n; q++) {
        const apq = a[p]![q]!;
        if (apq === 0) continue;
        const theta = (a[q]![q]! - a[p]![p]!) / (2 * apq);
        const t = Math.sign(theta || 1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
        const c = 1 / Math.sqrt(t * t + 1), s = t * c;
        for (let k = 0; k < n; k++) {
          const akp = a[k]![p]!, akq = a[k]![q]!;
          a[k]![p] = c * akp - s * akq;
          a[k]![q] = s * akp + c * akq;
        }
        for (let k = 0; k < n; k++) {
          const apk = a[p]![k]!, aqk = a[q]![k]!, vkp = v[k]![p]!, vkq = v[k]![q]!;
          a[p]![k] = c * apk - s * aqk;
          a[q]![k] = s * apk + c * aqk;
          v[k]![p] = c * vkp - s * vkq;
          v[k]![q] = s * vkp + c * vkq;
        }
      }
    }
  }
  return { values: Float64Array.from(a, (row, i) => row[i]!), vectors: v };
}

// The least x of the least |G x - h| for a symmetric G: directions below 1e-13 of the largest count as none.
export function leastSquares(G: Matrix, h: Float64Array): Float64Array {
  const { values, vectors } = eigen(G), n = h.length, x = new Float64Array(n);
  const largest = Math.max(...values.map(Math.abs), 0);
  for (let j = 0; j < n; j++) {
    if (Math.abs(values[j]!) <= 1e-13 * largest) continue;
    let along = 0;
    for (let i = 0; i < n; i++) along += vectors[i]![j]! * h[i]!;
    for (let i = 0; i < n; i++) x[i]! += (vectors[i]![j]! * along) / values[j]!;
  }
  return x;
}

// The solution of G x = h for the unknowns `which`, zero for the others; Gauss with pivots.
function solveSome(G: Matrix, h: Float64Array, which: boolean[]): Float64Array {
  const places = [...which.keys()].filter((i) => which[i]), n = places.length;
  const a = places.map((i) => Float64Array.from([...places.map((j) => G[i]![j]!), h[i]!]));
  for (let k = 0; k < n; k++) {
    let pivot = k;
    for (let i = k + 1; i < n; i++) if (Math.abs(a[i]![k]!) > Math.abs(a[pivot]![k]!)) pivot = i;
    [a[k], a[pivot]] = [a[pivot]!, a[k]!];
    for (let i = k + 1; i < n; i++) {
      const factor = a[i]![k]! / a[k]![k]!;
      if (factor) for (let j = k; j <= n; j++) a[i]![j]! -= factor * a[k]![j]!;
    }
  }
  const out = new Float64Array(h.length), x = new Float64Array(n);
  for (let k = n - 1; k >= 0; k--) {
    let rest = a[k]![n]!;
    for (let j = k + 1; j < n; j++) rest -= a[k]![j]! * x[j]!;
    x[k] = rest / a[k]![k]!;
    out[places[k]!] = x[k]!;
  }
  return out;
}

// The x >= 0 of the least x'Gx/2 - h'x, for G of unit diagonal (Bro and de Jong 1997; Lawson and Hanson, chapter 23).
export function nnls(G0: Matrix, h: Float64Array): Float64Array {
  const m = h.length, G = G0.map((row, i) => Float64Array.from(row, (value, j) => (i === j ? value + 1e-12 : value)));
  const tolerance = 1e-12 * Math.max(...h.map(Math.abs), 1e-300);
  const active = new Array<boolean>(m).fill(false);
  let x = new Float64Array(m);
  for (let round = 0; round < 10 * m + 10; round++) {
    let best = -1, steepest = -Infinity;
    for (let i = 0; i < m; i++) {
      if (active[i]) continue;
      let gradient = h[i]!;
      for (let j = 0; j < m; j++) gradient -= G[i]![j]! * x[j]!;
      if (gradient > steepest) [best, steepest] = [i, gradient];
    }
    if (best < 0 || steepest <= tolerance) break;
    active[best] = true;
    let z = solveSome(G, h, active);
    while (active.some((on, i) => on && z[i]! <= 0)) {
      const falling = [...active.keys()].filter((i) => active[i] && z[i]! <= 0);
      const steps = falling.map((i) => x[i]! / Math.max(x[i]! - z[i]!, 1e-300));
      const step = Math.min(...steps);
      x = x.map((value, i) => value + step * (z[i]! - value));
      const small = 1e-15 * Math.max(...x, 1e-300);
      const out = [...active.keys()].filter((i) => active[i] && x[i]! <= small);
      for (const i of out.length ? out : [falling[steps.indexOf(step)]!]) active[i] = false;
      for (let i = 0; i < m; i++) if (!active[i]) x[i] = 0;
      if (!active.some(Boolean)) return x;
      z = solveSome(G, h, active);
    }
    if (!active[best]) break; // it came in and went out again: rounding, and no better point
    x = z as Float64Array<ArrayBuffer>;
  }
  return x;
}
