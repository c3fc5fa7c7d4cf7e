// A quantity over time, and the stretch of it that is looked at: drawn over with a finger or the mouse, or moved by keys.
import { Chart, line, type Scale } from './chart';
import { h, s } from './dom';
import { counted, short } from './text';

export interface StripData {
  position: ArrayLike<number>; // where each interval ends
  begin: ArrayLike<number>; // and begins: later than the one before ended where nothing was measured for a while
  lines: { values: ArrayLike<number>; css: string; at?: ArrayLike<number> }[]; // `at`: of which interval each value is
  top?: number; // of the axis; by default all is seen
  unit: string;
  up: string;
  runs: number[]; // the intervals at which a run ends and another one begins
}

export type Stretch = [number, number]; // the first and the last interval, both included

const MARGIN = { left: 62, right: 14, top: 8, bottom: 42 };

export class Strip {
  readonly element: HTMLElement;
  private readonly chart: Chart;
  private readonly handles: [HTMLElement, HTMLElement];
  private readonly words = h('span', { class: 'pkl-muted' });
  private readonly plot = s('g');
  private readonly shade = s('rect', { class: 'pkl-shade' });
  private data: StripData;
  private stretch: Stretch = [0, 0];
  private x!: Scale;
  private grabbed: { end: 0 | 1 | 'move' | 'new'; from: number; at: Stretch } | null = null;
  private pending = 0;

  constructor(data: StripData, label: string, private readonly chosen: (stretch: Stretch) => void) {
    this.data = data;
    this.stretch = this.whole;
    this.chart = new Chart(label, 132, MARGIN, () => this.draw());
    this.chart.svg.append(this.plot, this.shade);
    this.handles = [this.handle('start', 0), this.handle('end', 1)];
    const all = h('button', { type: 'button' }, 'Whole run');
    all.addEventListener('click', () => this.chosen(this.whole));
    this.chart.element.append(...this.handles);
    this.chart.element.classList.add('pkl-strip');
    this.element = h('div', {}, this.chart.element, h('div', { class: 'pkl-row' }, all, this.words));
    this.listen();
  }

  get whole(): Stretch {
    return [0, this.data.position.length - 1];
  }

  show(stretch: Stretch, data: StripData = this.data): void {
    const other = data !== this.data;
    this.data = data;
    this.stretch = stretch;
    if (other) this.draw();
    else this.place();
  }

  destroy(): void {
    cancelAnimationFrame(this.pending);
    this.chart.destroy();
  }

  private handle(name: string, end: 0 | 1): HTMLElement {
    const made = h('div', { class: 'pkl-handle', role: 'slider', tabindex: 0, 'aria-label': `${name} of the window`, 'aria-valuemin': 0 });
    made.addEventListener('keydown', (event) => {
      const n = this.data.position.length, page = Math.max(1, Math.round(n / 10));
      const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -page, PageUp: page, Home: -n, End: n }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      const [a, b] = this.stretch;
      if (event.shiftKey) {
        const shift = Math.min(n - 1 - b, Math.max(-a, by));
        this.choose([a + shift, b + shift]);
      } else if (end === 0) this.choose([Math.min(b, Math.max(0, a + by)), b]);
      else this.choose([a, Math.max(a, Math.min(n - 1, b + by))]);
    });
    return made;
  }

  private choose(stretch: Stretch): void {
    if (stretch[0] !== this.stretch[0] || stretch[1] !== this.stretch[1]) this.chosen(stretch);
  }

  private nearest(pixel: number): number {
    const { position } = this.data, wanted = this.x.from(pixel);
    let low = 0, high = position.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (position[middle]! < wanted) low = middle + 1;
      else high = middle;
    }
    return low > 0 && wanted - position[low - 1]! < position[low]! - wanted ? low - 1 : low;
  }

  private listen(): void {
    const box = this.chart.element, place = (event: PointerEvent): number => event.clientX - box.getBoundingClientRect().left;
    box.addEventListener('mousedown', (event) => event.preventDefault()); // the page would take the focus from the handle
    box.addEventListener('pointerdown', (event) => {
      if (event.button !== 0 || !this.x) return;
      const at = place(event), [a, b] = this.ends();
      const whole = this.stretch[0] === 0 && this.stretch[1] === this.whole[1];
      const near = event.pointerType === 'mouse' ? 7 : 16;
      const end = Math.abs(at - b) < near && Math.abs(at - b) <= Math.abs(at - a) ? 1 : Math.abs(at - a) < near ? 0 : !whole && at > a && at < b ? 'move' : 'new';
      this.grabbed = { end, from: this.nearest(at), at: [...this.stretch] };
      box.setPointerCapture(event.pointerId);
      this.handles[end === 0 ? 0 : 1].focus({ preventScroll: true }); // arrow keys go on from where the pointer ends
    });
    box.addEventListener('pointermove', (event) => {
      const grabbed = this.grabbed;
      if (!grabbed) return;
      const to = this.nearest(place(event));
      // Pointers report faster than the screen draws: the last place counts.
      cancelAnimationFrame(this.pending);
      this.pending = requestAnimationFrame(() => this.drag(grabbed, to));
    });
    box.addEventListener('pointerup', (event) => {
      cancelAnimationFrame(this.pending);
      if (this.grabbed && this.grabbed.from !== this.nearest(place(event))) this.drag(this.grabbed, this.nearest(place(event)));
      this.grabbed = null;
    });
    box.addEventListener('pointercancel', () => {
      this.grabbed = null;
    });
  }

  private drag({ end, from, at: [a, b] }: NonNullable<typeof this.grabbed>, to: number): void {
    const n = this.data.position.length;
    if (end === 'new') this.choose(from <= to ? [from, to] : [to, from]);
    else if (end === 'move') {
      const shift = Math.min(n - 1 - b, Math.max(-a, to - from));
      this.choose([a + shift, b + shift]);
    } else if (end === 0) this.choose([Math.min(to, b), b]);
    else this.choose([a, Math.max(to, a)]);
  }

  private ends(): [number, number] {
    const { position } = this.data, [first, last] = this.stretch;
    return [this.x.at(this.edge(first)), this.x.at(position[last]!)];
  }

  // Where an interval begins: between two numbers where there are no times.
  private edge(i: number): number {
    const { position, begin, unit } = this.data;
    return unit === 'seconds' ? begin[i]! : (begin[i]! + position[i]!) / 2;
  }

  private draw(): void {
    if (!this.chart.width) return;
    const { position, begin, lines, unit, up, runs } = this.data, n = position.length;
    const high = position[n - 1]!, low = begin[0]!;
    this.x = this.chart.x(low, high > low ? high : low + 1);
    let top = this.data.top ?? 0;
    if (!top) for (const each of lines) for (let i = 0; i < each.values.length; i++) if (each.values[i]! > top) top = each.values[i]!;
    const y = this.chart.y(0, top * 1.08 || 1);
    let gaps = 0;
    const other = new Set(runs);
    const gapsBefore = Array.from(position, (_, i) => (other.has(i) || (i > 0 && begin[i]! > position[i - 1]!) ? ++gaps : gaps));
    const paths = lines.map(({ values, css, at }) => {
      const xs: number[] = [], ys: number[] = [], known = (i: number): boolean => Number.isFinite(values[i]);
      const interval = (i: number): number => (at ? at[i]! : i);
      const apart = (i: number): boolean => i > 0 && gapsBefore[interval(i)] !== gapsBefore[interval(i - 1)];
      const joined = (i: number): boolean => known(i - 1) && known(i) && !apart(i);
      for (let i = 0; i < values.length; i++) {
        const from = this.x.at(begin[interval(i)]!), to = this.x.at(position[interval(i)]!), value = y.at(values[i]!);
        const add = (place: number, level: number): void => { xs.push(place); ys.push(level); };
        if (apart(i)) add(from, NaN);
        // A value without a neighbour would be a dot that nobody sees: it is as long as its interval.
        if (known(i) && !joined(i) && !joined(i + 1)) add(from, value);
        add(to, value);
      }
      return s('path', { d: line(xs, ys), class: css });
    });
    const across = unit === 'seconds' ? 'time (s)' : 'interval (number)';
    const rules = runs.map((i) => s('path', { class: 'pkl-border', d: `M${this.x.at(this.edge(i)).toFixed(1)} ${MARGIN.top}V${this.chart.height - MARGIN.bottom}` }));
    this.plot.replaceChildren(this.chart.axes(this.x, y, across, up), ...rules, ...paths);
    this.place();
  }

  private place(): void {
    const { position, begin, unit } = this.data, [first, last] = this.stretch, n = position.length;
    const all = first === 0 && last === n - 1;
    const [from, to] = [unit === 'seconds' ? begin[first]! : position[first]!, position[last]!].map((at) => short(at, 4));
    this.words.textContent = all
      ? n === 1 ? 'one interval' : `all ${n} intervals; drag across the picture to choose some of them`
      : `${unit === 'seconds' ? `${from} to ${to} seconds` : `intervals ${from} to ${to}`}: ${last - first + 1} of ${counted(n, 'intervals')}`;
    this.handles.forEach((handle, end) => {
      const at = this.stretch[end]!;
      handle.setAttribute('aria-valuemax', `${n - 1}`);
      handle.setAttribute('aria-valuenow', `${at}`);
      handle.setAttribute('aria-valuetext', `${short(position[at]!, 4)} ${unit}`);
    });
    if (!this.x) return;
    const [a, b] = this.ends();
    const rect = { x: a, y: MARGIN.top, width: Math.max(1, b - a), height: this.chart.height - MARGIN.top - MARGIN.bottom };
    for (const [name, value] of Object.entries(rect)) this.shade.setAttribute(name, value.toFixed(1));
    this.shade.style.display = all ? 'none' : '';
    this.handles[0].style.left = `${a}px`;
    this.handles[1].style.left = `${b}px`;
  }
}
