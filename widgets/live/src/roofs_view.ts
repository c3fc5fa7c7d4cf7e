// The extended roofline: all roofs of a schedule and the performance point, for each core of a grid.
import { Chart, line } from './chart';
import { breakable, h, key, listbox, s } from './dom';
import { Sliders, type Axis } from './grid';
import type { Head, Packed } from './packed';
import { percent, short } from './text';
import { Frame, Reader, type State, type View } from './view';

export interface Roof {
  label: string;
  kind: string;
  colour: string; // "" for a classical bound: the colour of text
  of: string; // the node type in words
  a: number;
  b: number;
  alpha: number;
  bound: number;
  distance: number;
  utilisation: number;
}

interface RoofsHead extends Head {
  axes: Axis[];
  roofs: Pick<Roof, 'label' | 'kind' | 'colour' | 'of'>[];
  verdicts: string[];
  tolerance: number;
  unit: string;
}

const KINDS = ['throughput', 'issue', 'latency', 'stall', 'overlap'] as const;
const DASHES: Record<string, string> = { throughput: '', issue: '6 4', latency: '8 3 2 3', stall: '2 3', overlap: '' };

// A roof at an intensity: P <= 1 / (a + b / I - alpha min(a, b / I)).
export function roofAt({ a, b, alpha }: Pick<Roof, 'a' | 'b' | 'alpha'>, intensity: number): number {
  const memory = b / intensity;
  return 1 / (a + memory - alpha * Math.min(a, memory));
}

export function roofsView(root: HTMLElement, packed: Packed<RoofsHead>, changed: () => void): View {
  const { head } = packed, frame = new Frame(root, head), arrays = packed.arrays as Record<string, Float64Array>;
  const sliders = new Sliders(head.axes, (value) => short(value, 4), () => act(() => undefined));
  let hidden = new Set<string>(), chosen = '';
  const buttons = KINDS.map((kind) => {
    const button = h('button', { type: 'button' }, kind);
    button.addEventListener('click', () => act(() => (hidden.has(kind) ? hidden.delete(kind) : hidden.add(kind))));
    return button;
  });
  const chart = new Chart('Extended roofline', 380, { left: 62, right: 16, top: 10, bottom: 44 }, () => drawRoofs());
  const list = listbox('Roofs, the nearest to the point first', (i) => act(() => (chosen = chosen === nearest()[i]!.label ? '' : nearest()[i]!.label)));
  const verdict = h('div', { class: 'pkl-advice' });
  const legend = h('p', { class: 'pkl-legend' });
  frame.body.append(
    h('p', { class: 'pkl-muted' }, 'Each place of the sliders was scheduled; nothing between them is shown.'),
    h('div', { class: 'pkl-columns' },
      h('div', {}, sliders.element, h('h4', {}, 'Nearest roofs: how many times the performance each allows (dashed: 1, the performance itself)'), list.element, verdict),
      h('div', {}, h('div', { class: 'pkl-row', role: 'group', 'aria-label': 'Kinds of roofs' }, ...buttons), chart.element, legend)),
  );
  // One range for all of the grid, so that what moves is seen to move.
  const finite = arrays.intensity!.filter((value) => Number.isFinite(value));
  const centre = finite.length ? finite[0]! : 1, low = centre / 10 ** 1.5, high = centre * 10 ** 1.5;
  const bottom = Math.min(...arrays.performance!) / 5, top = arrays.bound!.reduce((most, value) => Math.max(most, value), 0) * 3;

  function act(change: () => void): void {
    change();
    draw();
    changed();
  }

  function roofs(): Roof[] {
    const { offsets, which, a, b, alpha, bound, distance, utilisation } = arrays;
    const out: Roof[] = [];
    for (let i = offsets![sliders.place]!; i < offsets![sliders.place + 1]!; i++) {
      out.push({ ...head.roofs[which![i]!]!, a: a![i]!, b: b![i]!, alpha: alpha![i]!, bound: bound![i]!, distance: distance![i]!, utilisation: utilisation![i]! });
    }
    return out; // the nearest first, as Python sorted them
  }

  const told = (roof: Roof): string => `${roof.label}: ${short(roof.bound)} ${head.unit}/cycle, ${roof.distance.toFixed(2)} × the performance`;
  const nearest = (): Roof[] => roofs().filter(({ kind }) => !hidden.has(kind)).slice(0, 8);

  function draw(): void {
    sliders.show();
    const here = sliders.place, [first, ...reasons] = head.verdicts[here]!.split('\n');
    frame.words.textContent = first!;
    verdict.replaceChildren(...reasons.map((reason) => h('div', {}, reason)));
    buttons.forEach((button, i) => button.setAttribute('aria-pressed', `${!hidden.has(KINDS[i]!)}`));
    const rows = nearest(), most = Math.max(1, ...rows.map(({ distance }) => distance).filter(Number.isFinite));
    list.fill(rows.map((roof) => h('div', { title: told(roof) }, h('span', { class: 'pkl-label' }, ...breakable(roof.label)),
      h('span', { class: 'pkl-bar' }, h('i', { style: `width:${Math.min(100, (100 * roof.distance) / most).toFixed(1)}%;background:${roof.colour || 'var(--pkl-ink)'}` }),
        h('i', { class: 'pkl-mark', style: `left:${(100 / most).toFixed(1)}%` })),
      h('span', { class: 'pkl-value' }, roof.distance.toFixed(2)))), rows.findIndex(({ label }) => label === chosen));
    drawLegend();
    drawRoofs();
  }

  // One entry for each colour that is drawn.
  function drawLegend(): void {
    const named = ({ kind, of }: Pick<Roof, 'kind' | 'of'>): string => (kind === 'throughput' ? 'classical bounds' : of);
    const drawn = new Set(roofs().filter(({ kind }) => !hidden.has(kind)).map(named));
    const colours = new Map(head.roofs.map((roof) => [named(roof), roof.colour || 'var(--pkl-ink)']));
    legend.replaceChildren(...[...colours].filter(([name]) => drawn.has(name)).map(([name, colour]) => key(name, colour, 'line')),
      h('span', { class: 'pkl-muted' }, 'issue dashed, latency dash-dotted, stalls dotted; thick where a roof hits the point'));
  }

  function drawRoofs(): void {
    if (!chart.width) return;
    const x = chart.x(low, high, true), y = chart.y(bottom, top, true), all = roofs();
    const at = Array.from({ length: 61 }, (_, i) => low * (high / low) ** (i / 60)), xs = at.map((value) => x.at(value));
    const paths = all.filter(({ kind }) => !hidden.has(kind)).reverse().map((roof) => {
      const strong = roof.kind === 'throughput' || roof.distance <= 1 + head.tolerance, mine = roof.label === chosen;
      const path = s('path', {
        d: line(xs, at.map((value) => y.at(roofAt(roof, value)))), 'stroke-dasharray': DASHES[roof.kind]!,
        'stroke-width': mine ? 4.5 : strong ? 2.4 : 1.2, style: `stroke:${mine ? 'var(--pkl-accent)' : roof.colour || 'var(--pkl-ink)'}`,
      });
      path.append(s('title', {}, `${told(roof)}, utilisation ${percent(roof.utilisation)}`));
      return path;
    });
    const intensity = arrays.intensity![sliders.place]!, performance = arrays.performance![sliders.place]!;
    const point = s('circle', { class: 'pkl-point', cx: x.at(Number.isFinite(intensity) ? intensity : high), cy: y.at(performance), r: 6 });
    chart.svg.replaceChildren(chart.axes(x, y, `operational intensity (${head.unit}/byte, all levels)`, `performance (${head.unit}/cycle)`), chart.clipped(...paths), point);
    chart.svg.setAttribute('aria-label', `${all.length} roofs; the point at ${short(performance)} ${head.unit} per cycle; nearest: ${nearest().slice(0, 3).map(({ label }) => label).join(', ')}`);
  }

  draw();
  const labels = head.roofs.map(({ label }) => label);
  return {
    take: (state: State) => {
      const read = new Reader(state), told = sliders.take(state.values);
      hidden = new Set(read.some('hidden', KINDS, []));
      chosen = read.one('roof', ['', ...labels], '');
      draw();
      return [...told, ...read.unknown(['values', 'hidden', 'roof'])];
    },
    state: () => ({
      ...(Object.keys(sliders.state()).length ? { values: sliders.state() } : {}),
      ...(hidden.size ? { hidden: KINDS.filter((kind) => hidden.has(kind)) } : {}),
      ...(chosen ? { roof: chosen } : {}),
    }),
    result: () => ({
      performance: arrays.performance![sliders.place]!, verdict: head.verdicts[sliders.place]!,
      roofs: roofs().map((roof) => ({ label: roof.label, bound: roof.bound, distance: roof.distance, at: [low, centre, high].map((value) => roofAt(roof, value)) })),
    }),
    destroy: () => chart.destroy(),
  };
}
