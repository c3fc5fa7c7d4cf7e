// What if: factors on a core's capacities, the cycles of the run on that core, and its next bottleneck (Gus, section 3.2).
import { h, s, table } from './dom';
import { Chart, fitted } from './chart';
import { Sliders, type Axis } from './grid';
import type { Head, Packed } from './packed';
import { count, percent, short } from './text';
import { Frame, Reader, type State, type View } from './view';

interface WhatIfHead extends Head {
  axes: Axis[];
  ranked: string[]; // the resources of the ranking
  weight: string;
  top: number;
}

export function whatIfView(root: HTMLElement, packed: Packed<WhatIfHead>, changed: () => void): View {
  const { head, arrays } = packed, frame = new Frame(root, head), n = head.ranked.length;
  const { cycles, speedup } = arrays as { cycles: Float64Array; speedup: Float64Array };
  const sliders = new Sliders(head.axes, (value) => `×${short(value)}`, () => {
    draw();
    changed();
  });
  const height = 40 + 24 * Math.min(head.top, n);
  const chart = new Chart('Gain of the changed core by each resource', height, { left: 200, right: 56, top: 6, bottom: 30 }, () => drawBars());
  const rows = h('details', {}, h('summary', {}, 'The ranking as a table'));
  rows.addEventListener('toggle', () => drawTable());
  frame.body.append(
    h('p', { class: 'pkl-muted' }, 'Each slider multiplies a capacity, and divides a latency. Each place of the sliders was simulated; nothing between them is shown.'),
    h('div', { class: 'pkl-columns' }, h('div', {}, sliders.element), h('div', {}, h('h4', {}, `Gain with one more resource ${head.weight}`), chart.element)), rows,
  );

  const ranking = (): [string, number][] => {
    const from = sliders.place * n;
    return head.ranked.map((name, i): [string, number] => [name, speedup[from + i]!]).sort((one, two) => two[1] - one[1]);
  };

  function draw(): void {
    sliders.show();
    const now = cycles[sliders.place]!, first = cycles[sliders.start]!, [best] = ranking();
    const speed = short(first / now), faster = speed === '1' ? 'no faster than' : `${speed} times as fast as`;
    frame.words.textContent = `${count(now)} cycles (simulated): ${faster} the core as it is (${count(first)} cycles). `
      + (!best || best[1] < 0.005 ? 'No single resource helps by 0.5 % any more.' : `Next bottleneck: ${best[0]}.`);
    drawBars();
    drawTable();
  }

  function drawBars(): void {
    if (!chart.width) return;
    const shown = ranking().slice(0, head.top), most = Math.max(...shown.map(([, gain]) => gain), 0.01);
    const { left, right, top } = chart.margin, wide = chart.width - left - right;
    chart.svg.replaceChildren(...shown.flatMap(([name, gain], i) => {
      const y = top + 24 * i, length = Math.max(0, (wide * gain) / most);
      return [
        s('text', { x: left - 8, y: y + 16, 'text-anchor': 'end' }, fitted(name, left - 8)),
        s('rect', { class: 'pkl-fill', x: left, y: y + 4, width: length.toFixed(1), height: 16, rx: 2 }),
        s('text', { x: left + length + 6, y: y + 16 }, percent(gain, 1)),
      ];
    }));
    chart.svg.setAttribute('aria-label', `Gains by resource: ${shown.map(([name, gain]) => `${name} ${percent(gain, 1)}`).join(', ')}`);
  }

  function drawTable(): void {
    if (!rows.open) return;
    const all = ranking(), telling = all.filter(([, gain]) => Math.abs(gain) >= 5e-5), idle = all.length - telling.length;
    const lines = telling.map(([name, gain]) => [name, percent(gain, 2)]);
    if (idle) lines.push([`${idle} other${idle > 1 ? 's' : ''}`, 'under 0.01 %']);
    rows.replaceChildren(rows.firstElementChild!, table(`Gains of the changed core, ${head.weight} each (simulated)`, ['resource', 'gain'], lines));
  }

  draw();
  return {
    take: (state: State) => {
      const told = sliders.take(state.factors);
      draw();
      return [...told, ...new Reader(state).unknown(['factors'])];
    },
    state: () => (Object.keys(sliders.state()).length ? { factors: sliders.state() } : {}),
    result: () => ({ cycles: cycles[sliders.place]!, speedup: Object.fromEntries(ranking()) }),
    destroy: () => chart.destroy(),
  };
}
