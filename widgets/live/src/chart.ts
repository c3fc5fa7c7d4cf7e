// Scales, axes and marks of the charts, as SVG.
import { h, s, unique, type Attributes } from './dom';
import { short } from './text';

export interface Scale {
  low: number;
  high: number;
  log: boolean;
  at(value: number): number; // in pixels
  from(pixel: number): number;
}

export function scale(low: number, high: number, start: number, end: number, log = false): Scale {
  const f = log ? Math.log10 : (v: number): number => v;
  const a = f(low), b = f(high) > a ? f(high) : a + 1;
  return {
    low, high, log,
    at: (value) => start + ((f(value) - a) / (b - a)) * (end - start),
    from: (pixel) => {
      const v = a + ((pixel - start) / (end - start)) * (b - a);
      return log ? 10 ** v : v;
    },
  };
}

export function ticks(low: number, high: number, about: number, log = false): number[] {
  const out: number[] = [];
  if (log) {
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
    const step = Math.max(1, Math.ceil((last - first + 1) / about));
    for (let power = first; power <= last; power += step) out.push(10 ** power);
    if (out.length >= 3) return out;
    const finer: number[] = []; // between two powers nobody reads a height
    for (let power = first - 1; power <= last + 1; power++) {
      for (const digit of [1, 2, 5]) if (digit * 10 ** power >= low && digit * 10 ** power <= high) finer.push(digit * 10 ** power);
    }
    if (finer.length >= 2 && finer.length <= about) return finer;
    if (out.length >= 2) return out;
    if (finer.length >= 2) return finer.filter((_, i) => i % 2 === 0);
    out.length = 0;
  }
  const rough = (high - low) / about || 1, ten = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * ten).find((wide) => wide >= rough * 0.999)!;
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) out.push(Number((i * step).toPrecision(12)));
  return out;
}

const SUPERSCRIPT = '⁰¹²³⁴⁵⁶⁷⁸⁹';
const power = (value: number): string => {
  const exponent = Math.round(Math.log10(value));
  if (exponent >= -3 && exponent <= 9) return short(value);
  return `10${exponent < 0 ? '⁻' : ''}${[...`${Math.abs(exponent)}`].map((d) => SUPERSCRIPT[Number(d)]).join('')}`;
};
const isPower = (value: number): boolean => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9;

export const line = (x: ArrayLike<number>, y: ArrayLike<number>): string => {
  let path = '', pen = 'M';
  for (let i = 0; i < x.length; i++) {
    if (!Number.isFinite(x[i]!) || !Number.isFinite(y[i]!)) pen = 'M';
    else {
      path += `${pen}${x[i]!.toFixed(1)} ${y[i]!.toFixed(1)}`;
      pen = 'L';
    }
  }
  return path;
};

// Points as one path of short strokes with round ends: thousands of them are one element.
export const dots = (x: ArrayLike<number>, y: ArrayLike<number>): string => {
  let path = '';
  for (let i = 0; i < x.length; i++) if (Number.isFinite(x[i]!) && Number.isFinite(y[i]!)) path += `M${x[i]!.toFixed(1)} ${y[i]!.toFixed(1)}h.01`;
  return path;
};

export interface Margin {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

// A drawing that is as wide as its place. `draw` is called with the width whenever that changes.
export class Chart {
  readonly element: HTMLElement;
  readonly svg: SVGSVGElement;
  width = 0;
  private readonly observer: ResizeObserver;

  constructor(label: string, readonly height: number, readonly margin: Margin, draw: () => void) {
    this.svg = s('svg', { role: 'img', 'aria-label': label, height });
    this.element = h('div', { class: 'pkl-chart', style: `height:${height}px` }, this.svg);
    this.observer = new ResizeObserver(() => {
      const width = Math.floor(this.element.clientWidth);
      if (width <= 0 || width === this.width) return;
      this.width = width;
      this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
      this.svg.setAttribute('width', `${width}`);
      draw();
    });
    this.observer.observe(this.element);
  }

  get plotWidth(): number {
    return this.width - this.margin.left - this.margin.right;
  }

  x(low: number, high: number, log = false): Scale {
    return scale(low, high, this.margin.left, this.width - this.margin.right, log);
  }

  y(low: number, high: number, log = false): Scale {
    return scale(low, high, this.height - this.margin.bottom, this.margin.top, log);
  }

  // Axes with ticks and grid; `extra` are further ticks along x.
  axes(x: Scale, y: Scale, across: string, up: string, extra: [number, string][] = []): SVGGElement {
    const { left, right, top, bottom } = this.margin;
    const base = this.height - bottom, end = this.width - right;
    const group = s('g', { class: 'pkl-axes' });
    const text = (value: string, attributes: Attributes): void => void group.append(s('text', attributes, value));
    const label = (v: number, log: boolean): string => (log && isPower(v) ? power(v) : short(v));
    for (const v of ticks(y.low, y.high, Math.max(2, Math.floor((base - top) / 34)), y.log)) {
      const at = y.at(v);
      group.append(s('path', { d: `M${left} ${at.toFixed(1)}H${end}` }));
      text(label(v, y.log), { x: left - 9, y: at + 4, 'text-anchor': 'end' });
    }
    const last = extra.length ? Math.min(...extra.map(([v]) => x.at(v))) - 22 : Infinity;
    for (const v of ticks(x.low, x.high, Math.max(2, Math.floor((end - left) / 75)), x.log)) {
      if (x.at(v) > last) continue;
      group.append(s('path', { d: `M${x.at(v).toFixed(1)} ${base}v4` }));
      text(label(v, x.log), { x: x.at(v), y: base + 17, 'text-anchor': 'middle' });
    }
    for (const [v, name] of extra) text(name, { x: x.at(v), y: base + 17, 'text-anchor': 'middle' });
    group.append(s('path', { class: 'pkl-base', d: `M${left} ${top}V${base}H${end}` }));
    text(across, { x: (left + end) / 2, y: this.height - 6, 'text-anchor': 'middle', class: 'pkl-title-x' });
    text(up, { transform: `translate(13 ${(top + base) / 2}) rotate(-90)`, 'text-anchor': 'middle', class: 'pkl-title-y' });
    return group;
  }

  // Marks of which only what lies between the axes is seen.
  clipped(...marks: SVGElement[]): SVGGElement {
    const id = unique('clip'), { left, right, top, bottom } = this.margin;
    const frame = s('rect', { x: left, y: top, width: Math.max(0, this.width - left - right), height: this.height - top - bottom });
    return s('g', { 'clip-path': `url(#${id})` }, s('clipPath', { id }, frame), ...marks);
  }

  destroy(): void {
    this.observer.disconnect();
  }
}

// As much of a text as fits, its middle left out: both ends tell events apart.
export function fitted(text: string, width: number, perCharacter = 6.6): string {
  const length = Math.max(4, Math.floor(width / perCharacter));
  if (text.length <= length) return text;
  const head = (length - 1) >> 1;
  return `${text.slice(0, head)}…${text.slice(text.length - (length - 1 - head))}`;
}
