// SPIRE: events ranked for a stretch of the run, and the chosen event's roofline with its samples.
import { Chart, dots, fitted, line } from './chart';
import { breakable, choice, h, key, listbox, s, table } from './dom';
import type { Packed } from './packed';
import { SpireModel, bound, type Ranked, type Ranking, type SpireHead } from './spire';
import { Strip, type Stretch } from './strip';
import { counted, percent, short } from './text';
import { Frame, Reader, type State, type View } from './view';

type Axes = 'log' | 'linear';
const MARGIN = { left: 62, right: 20, top: 10, bottom: 44 };

export function spireView(root: HTMLElement, packed: Packed<SpireHead>, changed: () => void): View {
  const { head, arrays } = packed as { head: SpireHead; arrays: Record<string, Float64Array> };
  const model = new SpireModel(packed), frame = new Frame(root, head);
  const names = head.events.map((event) => event.name);
  const whole: Stretch = [0, model.intervals - 1];
  let stretch = whole, axes: Axes = 'log', ranking: Ranking = model.rank(...whole), chosen = ranking.ranked[0]?.event ?? 0;
  const opens = chosen; // the event a view opens with

  const list = listbox('Events, the lowest bound first', (i) => {
    chosen = shown()[i]!.event;
    draw();
    changed();
  });
  const legend = h('p', { class: 'pkl-legend' });
  const eventName = h('h4', { class: 'pkl-name' });
  const advice = h('p', { class: 'pkl-advice' });
  const scales = choice<Axes>('Axes', [['log', 'log'], ['linear', 'linear']], (value) => {
    axes = value;
    draw();
    changed();
  });
  const sides = h('p', { class: 'pkl-sides pkl-muted' }, h('span', {}, '◀ left of the peak: fewer are better'), h('span', {}, 'right of it: more are better ▶'));
  const roof = new Chart('Roofline of the chosen event with its samples', 330, MARGIN, () => drawRoof());
  const roofLegend = h('p', { class: 'pkl-legend' });
  const strip = new Strip(
    {
      position: arrays.position!, begin: arrays.begin!, unit: head.unit, up: head.throughput.split(' (')[0]!,
      lines: [{ values: arrays.interval_throughput!, css: 'pkl-series' }],
      runs: head.runs.slice(1).map(([, first]) => first),
    },
    'Throughput over time', (to) => {
      stretch = to;
      ranking = model.rank(...stretch);
      draw();
      changed();
    },
  );
  const rows = h('details', {}, h('summary', {}, 'The ranking as a table'));
  rows.addEventListener('toggle', () => drawTable());
  frame.body.append(
    h('div', { class: 'pkl-columns' },
      h('div', {}, list.element, legend, advice),
      h('div', {}, h('div', { class: 'pkl-row pkl-spread' }, eventName, scales.element), sides, roof.element, roofLegend)),
    h('h4', {}, `${head.throughput} over time`), strip.element, rows,
  );

  // The lowest bounds, and the chosen event's where it is not among them.
  function shown(): Ranked[] {
    const top = ranking.ranked.slice(0, head.top);
    const own = ranking.ranked.find((each) => each.event === chosen);
    return own && !top.includes(own) ? [...top, own] : top;
  }

  function draw(): void {
    const all = stretch[0] === 0 && stretch[1] === whole[1];
    const lowest = ranking.ranked[0];
    if (!lowest) {
      frame.words.textContent = 'Nothing to rank in this window: no event has a usable sample here. Widen it.';
    } else {
      const above = ranking.throughput > lowest.bound ? ' Measured above its bound: the training holds nothing as fast at these intensities.' : '';
      frame.words.textContent = `${head.throughput}: at most ${short(lowest.bound)} by the lowest bound, of ${names[lowest.event]}; `
        + `${short(ranking.throughput)} was reached (${head.kind}). ${all ? 'All of the run' : 'The chosen window'}; ${ranking.ranked.length} of `
        + `${names.length + Object.values(head.unranked).reduce((a, b) => a + b, 0)} events ranked.${above}`;
    }
    strip.show(stretch);
    scales.set(axes);
    drawList();
    drawRoof();
    drawTable();
  }

  function drawList(): void {
    const each = shown(), limit = 1.06 * Math.max(ranking.throughput || 0, ...each.map((one) => one.bound), 1e-300);
    list.fill(each.map((one) => {
      const event = head.events[one.event]!, rank = ranking.ranked.indexOf(one) + 1;
      const bar = h('i', { style: `width:${((100 * one.bound) / limit).toFixed(2)}%;background:${event.colour}` });
      const measured = h('i', { class: 'pkl-mark', style: `left:${((100 * (ranking.throughput || 0)) / limit).toFixed(2)}%` });
      return h('div', { title: event.name }, h('span', { class: 'pkl-label' }, ...breakable(`${rank}. ${event.name}`)), h('span', { class: 'pkl-bar' }, bar, measured), h('span', { class: 'pkl-value' }, short(one.bound)));
    }), each.findIndex((one) => one.event === chosen));
    const areas = new Map(each.map((one) => [head.events[one.event]!.area, head.events[one.event]!.colour]));
    legend.replaceChildren(...[...areas].map(([area, colour]) => key(area, colour, 'bar')), key(`measured ${short(ranking.throughput)}`, 'currentColor', 'dash'));
    const own = ranking.ranked.find((one) => one.event === chosen), event = head.events[chosen]!;
    const work = head.work.replace(/([^s])s$/, '$1');
    const [from, to] = model.samples(chosen, ...stretch);
    advice.style.setProperty('--area', event.colour);
    advice.textContent = !own
      ? `${event.name} has no usable sample in this window.`
      : `${own.left >= 0.5
        ? `Reduce it: ${percent(own.left)} of the time lies left of the peak; fewer ${event.name} per ${work} would raise the bound.`
        : `Raise it: ${percent(1 - own.left)} of the time lies right of the peak; more ${event.name} per ${work} would raise the bound.`
      } Bound ${short(own.bound)} from ${counted(to - from, 'samples')}.${own.outside > 0 ? ` ${percent(own.outside)} of the time lies at intensities that training did not reach.` : ''}`;
  }

  function drawRoof(): void {
    if (!roof.width) return;
    const event = head.events[chosen]!;
    eventName.textContent = event.name;
    const a = arrays.corner_offsets![chosen]!, b = arrays.corner_offsets![chosen + 1]!;
    const cornerX = arrays.corner_x!.subarray(a, b), cornerY = arrays.corner_y!.subarray(a, b), top = arrays.at_infinity![chosen]!;
    const cloudX = arrays.cloud_x!.subarray(arrays.cloud_offsets![chosen]!, arrays.cloud_offsets![chosen + 1]!);
    const cloudY = arrays.cloud_y!.subarray(arrays.cloud_offsets![chosen]!, arrays.cloud_offsets![chosen + 1]!);
    const from = arrays.offsets![chosen]!, to = arrays.offsets![chosen + 1]!;
    const pointX = arrays.intensity!.subarray(from, to), pointY = arrays.throughput!.subarray(from, to);
    let low = Infinity, high = 0, bottom = Infinity, ceiling = top, infinite = false;
    const see = (x: number, y: number): void => {
      if (x === Infinity) infinite = true;
      else if (x > 0) [low, high] = [Math.min(low, x), Math.max(high, x)];
      if (y > 0) [bottom, ceiling] = [Math.min(bottom, y), Math.max(ceiling, y)];
    };
    cornerX.forEach((x, i) => i && see(x, cornerY[i]!));
    cloudX.forEach((x, i) => see(x, cloudY[i]!));
    pointX.forEach((x, i) => see(x, pointY[i]!));
    const own = ranking.ranked.find((one) => one.event === chosen);
    if (own) see(0, own.bound);
    const log = axes === 'log';
    [low, high, bottom, ceiling] = log ? [low / 1.5, high * 1.5, bottom / 1.5, ceiling * 1.4] : [0, high * 1.02, 0, ceiling * 1.08];
    const wider = log ? (high / low) ** 0.12 : 0.1 * (high - low);
    const infinity = log ? high * wider : high + wider;
    const right = !infinite ? high : log ? infinity * wider ** 0.4 : infinity + 0.4 * wider;
    const x = roof.x(low, right, log), y = roof.y(bottom, ceiling, log);
    const placeX = (v: number): number => x.at(v === Infinity ? infinity : log ? Math.max(v, low) : v);
    const placeY = (v: number): number => y.at(log ? Math.max(v, bottom) : v);
    const cloud = (xs: ArrayLike<number>, ys: ArrayLike<number>): string => dots(Float64Array.from(xs, placeX), Float64Array.from(ys, placeY));
    const curve: number[] = [];
    for (let i = 0; i <= 160; i++) curve.push(log ? low * (high / low) ** (i / 160) : low + ((high - low) * i) / 160);
    for (const corner of cornerX) if (corner > low && corner < high) curve.push(corner);
    curve.sort((one, two) => one - two);
    const heights = curve.map((v) => placeY(bound(cornerX, cornerY, 0, cornerX.length, top, v)));
    const [first, last] = model.samples(chosen, ...stretch);
    const inside = [first - from, last - from] as const;
    const peak = arrays.peak![chosen]!;
    const wide = roof.width - MARGIN.right, base = roof.height - MARGIN.bottom;
    roof.svg.replaceChildren(
      roof.axes(x, y, fitted(`intensity: ${head.work} per ${event.name}`, roof.plotWidth, 6.2), head.throughput, infinite ? [[infinity, '∞']] : []),
      s('path', { class: 'pkl-cloud', d: cloud(cloudX, cloudY) }),
      s('path', { class: 'pkl-outside', d: cloud(pointX.subarray(0, inside[0]), pointY.subarray(0, inside[0])) + cloud(pointX.subarray(inside[1]), pointY.subarray(inside[1])) }),
      s('path', { class: 'pkl-halo', d: cloud(pointX.subarray(...inside), pointY.subarray(...inside)) }),
      s('path', { class: 'pkl-points', style: `stroke:${event.colour}`, d: cloud(pointX.subarray(...inside), pointY.subarray(...inside)) }),
      ...(Number.isFinite(peak) ? [s('path', { class: 'pkl-peak', d: `M${placeX(peak).toFixed(1)} ${MARGIN.top}V${base}` })] : []),
      s('path', { class: 'pkl-roof', d: line(curve.map((v) => x.at(v)), heights) }),
      ...(infinite ? [s('path', { class: 'pkl-roof', d: `M${(x.at(infinity) - 10).toFixed(1)} ${placeY(top).toFixed(1)}h20` })] : []),
      ...(own ? [s('path', { class: 'pkl-bound', d: `M${MARGIN.left} ${placeY(own.bound).toFixed(1)}H${wide}` })] : []),
    );
    roof.svg.setAttribute('aria-label', `Roofline of ${event.name}: ${own ? `bound ${short(own.bound)}` : 'no sample in the window'}, ${last - first} of ${counted(to - from, 'samples')} in the window`);
    roofLegend.replaceChildren(
      key('roofline', 'var(--pkl-ink)', 'line'), key('in the window', event.colour, 'dot'),
      ...(last - first < to - from ? [key('outside of it', 'var(--pkl-outside)', 'dot')] : []),
      ...(cloudX.length ? [key(`training (${head.training_kind})`, 'var(--pkl-cloud)', 'dot')] : []),
      ...(Number.isFinite(peak) ? [key(`peak at ${short(peak)}`, 'var(--pkl-muted)', 'dash')] : []),
      ...(own ? [key(`bound ${short(own.bound)}`, 'var(--pkl-accent)', 'dash')] : []),
    );
  }

  function drawTable(): void {
    if (!rows.open) return;
    const cells = ranking.ranked.map((one, i) => [`${i + 1}`, names[one.event]!, head.events[one.event]!.area, short(one.bound, 4), percent(one.left), one.n]);
    rows.replaceChildren(rows.firstElementChild!, table(`Bounds of ${head.throughput} (${head.kind}), without their bootstrap spread`, ['', 'event', 'area', 'bound', 'left of the peak', 'samples'], cells));
  }

  draw();
  return {
    take: (state: State) => {
      const read = new Reader(state);
      stretch = read.stretch('window', model.intervals);
      axes = read.one('axes', ['log', 'linear'], 'log');
      chosen = names.indexOf(read.one('event', names, names[opens]!));
      ranking = model.rank(...stretch);
      draw();
      return read.unknown(['window', 'axes', 'event']);
    },
    state: () => ({
      ...(chosen === opens ? {} : { event: names[chosen] }),
      ...(axes === 'log' ? {} : { axes }),
      ...(stretch[0] === 0 && stretch[1] === whole[1] ? {} : { window: [...stretch] }),
    }),
    result: () => ({
      throughput: ranking.throughput,
      events: ranking.ranked.map((one) => ({ event: names[one.event], throughput_bound: one.bound, left_fraction: one.left, outside: one.outside, n_samples: one.n })),
    }),
    destroy: () => {
      strip.destroy();
      roof.destroy();
    },
  };
}
