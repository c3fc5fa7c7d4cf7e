// CPI stacks: events on and off, form, method and window, fitted anew at each change.
import { breakable, h, choice, key, listbox, table } from './dom';
import { NoStack, fit, select, type CpiFit, type Counts, type Form, type Method, type Settings } from './cpi';
import type { Head, Packed } from './packed';
import { Strip, type StripData, type Stretch } from './strip';
import { counted, fixed, percent, short } from './text';
import { Frame, Reader, type State, type View } from './view';

export interface CpiHead extends Head {
  stacks: { name: string; events: string[]; unit: string; kind: string; verdict: string }[];
  events: string[]; // of all stacks
  colours: Record<string, string>;
  off: string[]; // events that are out of the stack as it opens
  settings: Settings;
}

const FORMS = [['ipc', 'IPC form'], ['cpi', 'CPI form']] as const;
const METHODS = [['nnls', 'nnls'], ['ols', 'ols'], ['huber', 'huber']] as const;

export function cpiCounts(packed: Packed<CpiHead>, i: number): Counts & { position: Float64Array; begin: Float64Array } {
  const of = (name: string): Float64Array => packed.arrays[`${name}${i}`] as Float64Array, position = of('position');
  return {
    events: packed.head.stacks[i]!.events, cycles: of('cycles'), instructions: of('instructions'), counts: of('counts'),
    segments: of('segments'), at: position.map((_, row) => row), position, begin: of('begin'),
  };
}

export function cpiView(root: HTMLElement, packed: Packed<CpiHead>, changed: () => void): View {
  const { head } = packed, frame = new Frame(root, head);
  const data = head.stacks.map((_, i) => cpiCounts(packed, i));
  const opening = { form: head.settings.form, method: head.settings.method, sums: head.settings.sums };
  const steps = [...new Set([1, 5, 20, 50, opening.sums])].sort((a, b) => a - b);
  const whole = (): Stretch => [0, data[chosen]!.cycles.length - 1];
  let chosen = 0, form: Form = opening.form, method: Method = opening.method, sums = opening.sums;
  let off = new Set(head.off), stretch = whole();
  let fits: (CpiFit | NoStack)[] = [];
  const wholeFits = new Map<string, CpiFit | NoStack>();
  const last: (CpiFit | null)[] = head.stacks.map(() => null);

  const stacks = listbox('Stacks', (i) => change(() => {
    chosen = i;
    stretch = whole();
  }));
  const forms = choice<Form>('Form', FORMS, (value) => change(() => (form = value)));
  const methods = choice<Method>('Method', METHODS, (value) => change(() => (method = value)));
  const summing = h('select', { 'aria-label': 'Intervals' }, ...steps.map((n) => h('option', { value: n }, n === 1 ? 'each interval' : `sums of ${n}`)));
  summing.addEventListener('change', () => change(() => (sums = Number(summing.value))));
  const events = h('div', { class: 'pkl-events', role: 'group', 'aria-label': 'Events of the model' });
  const boxes = head.events.map((event) => {
    const box = h('input', { type: 'checkbox' });
    box.addEventListener('change', () => change(() => (box.checked ? off.delete(event) : off.add(event))));
    const bar = h('i'), component = h('span', { class: 'pkl-value' }), cost = h('span', { class: 'pkl-muted' });
    const row = h('label', { title: event }, box, h('i', { class: 'pkl-swatch', style: `background:${head.colours[event]}` }), h('span', { class: 'pkl-label' }, ...breakable(event)), h('span', { class: 'pkl-bar' }, bar), component, cost);
    events.append(row);
    return { event, box, bar, component, cost, row };
  });
  const evidence = h('p', { class: 'pkl-advice' });
  const verdict = h('p', { class: 'pkl-muted' });
  const timeLegend = h('p', { class: 'pkl-legend' });
  let stripOf = -1;
  const stripPlace = h('div');
  let strip: Strip | null = null;
  const rows = h('details', {}, h('summary', {}, 'The stack as a table'));
  rows.addEventListener('toggle', () => drawTable());
  frame.body.append(
    h('div', { class: 'pkl-row' }, forms.element, methods.element, summing),
    h('div', { class: 'pkl-columns' }, h('div', {}, stacks.element, evidence, verdict), h('div', {}, events)),
    h('h4', {}, 'CPI (cycles per instruction) and its prediction over time'), timeLegend, stripPlace, rows,
  );

  function change(act: () => void): void {
    act();
    draw();
    changed();
  }

  function fitted(i: number): CpiFit | NoStack {
    const source = data[i]!, names = source.events.filter((event) => !off.has(event));
    const all = i !== chosen || (stretch[0] === 0 && stretch[1] === source.cycles.length - 1);
    const name = JSON.stringify([i, form, method, sums, names]);
    if (all && wholeFits.has(name)) return wholeFits.get(name)!;
    let found: CpiFit | NoStack;
    try {
      found = fit(select(source, all ? 0 : stretch[0], all ? source.cycles.length - 1 : stretch[1], names), { ...head.settings, form, method, sums });
    } catch (error) {
      if (!(error instanceof NoStack)) throw error;
      found = error;
    }
    if (all) wholeFits.set(name, found);
    return found;
  }

  function draw(): void {
    fits = head.stacks.map((_, i) => fitted(i));
    const now = fits[chosen]!;
    if (!(now instanceof NoStack)) last[chosen] = now;
    forms.set(form);
    methods.set(method);
    summing.value = `${sums}`;
    drawWords(now);
    drawStacks();
    drawEvents(now);
    drawTime(now);
    drawTable();
  }

  function drawWords(now: CpiFit | NoStack): void {
    if (now instanceof NoStack) {
      frame.words.textContent = `No stack of ${head.stacks[chosen]!.name} here: ${now.message}.`;
      evidence.textContent = '';
    } else {
      const attributed = now.components.reduce((a, b) => a + b, 0), residual = now.cpi - attributed;
      frame.words.textContent = `CPI stack of ${head.stacks[chosen]!.name} (${head.stacks[chosen]!.kind}): CPI ${fixed(now.cpi, 4)} over ${counted(now.data.cycles.length, 'intervals')}; `
        + `base ${short(now.base)}; unattributed ${fixed(residual, 4)}.`;
      const singular = now.data.events.filter((_, i) => now.vif[i] === Infinity);
      const apart = Math.abs(now.base - now.other[0]!) / now.cpi;
      // Green is what a stack that the data support has in any case; without shuffled counts no more can be said here.
      evidence.style.setProperty('--area', apart <= 0.1 && now.r2Blocked >= 0.5 ? '#009E73' : '#D55E00');
      evidence.textContent = `R² ${fixed(now.r2, 2)} in sample, ${Number.isNaN(now.r2Blocked) ? '– (too few intervals)' : fixed(now.r2Blocked, 2)} in phases kept out. `
        + `The base is ${short(now.base)} by the ${form === 'ipc' ? 'IPC' : 'CPI'} form and ${short(now.other[0]!)} by the other, ${percent(apart, 1)} of the CPI apart.`
        + (singular.length ? ` ${singular.join(', ')} are linear combinations of each other: their penalties cannot be told apart.` : '')
        + now.leftOut.map(({ event, reason }) => ` ${event} ${reason}; it is left out.`).join('');
    }
    verdict.textContent = `Of the whole run as it was fitted in Python: ${head.stacks[chosen]!.verdict}`;
  }

  function drawStacks(): void {
    const top = Math.max(...fits.map((each) => (each instanceof NoStack ? 0 : each.cpi)), 1e-300) * 1.02;
    stacks.fill(head.stacks.map(({ name, kind }, i) => {
      const each = fits[i]!, bar = h('span', { class: 'pkl-bar' });
      if (!(each instanceof NoStack)) {
        let left = 0;
        each.components.forEach((value, part) => {
          if (!(value > 0)) return;
          const event = part ? each.data.events[part - 1]! : 'base', wide = (100 * value) / top;
          bar.append(h('i', { title: `${event}: ${short(value)}`, style: `left:${left.toFixed(3)}%;width:${wide.toFixed(3)}%;background:${head.colours[event]}` }));
          left += wide;
        });
        bar.append(h('i', { class: 'pkl-mark', style: `left:${((100 * each.cpi) / top).toFixed(2)}%` }));
      }
      const label = kind === 'measured' ? name : `${name} (${kind})`;
      return h('div', { title: name }, h('span', { class: 'pkl-label' }, ...breakable(label)), bar, h('span', { class: 'pkl-value' }, each instanceof NoStack ? '–' : fixed(each.cpi, 3)));
    }), chosen);
  }

  function drawEvents(now: CpiFit | NoStack): void {
    const here = now instanceof NoStack ? null : now;
    const most = here ? Math.max(...here.components.slice(1), 1e-300) : 1;
    for (const { event, box, bar, component, cost, row } of boxes) {
      const place = here ? here.data.events.indexOf(event) : -1, value = here && place >= 0 ? here.components[place + 1]! : NaN;
      row.hidden = !head.stacks[chosen]!.events.includes(event);
      box.checked = !off.has(event);
      bar.setAttribute('style', `width:${value > 0 ? ((100 * value) / most).toFixed(2) : 0}%;background:${head.colours[event]}`);
      component.textContent = short(value);
      cost.textContent = here && place >= 0 ? `${short(here.penalties[place]!)} cycles each` : off.has(event) ? 'off' : 'left out';
    }
  }

  function drawTime(now: CpiFit | NoStack): void {
    const source = data[chosen]!, n = source.cycles.length;
    const measured = source.cycles.map((value, i) => value / source.instructions[i]!);
    const shownFit = now instanceof NoStack ? null : now;
    const sorted = measured.slice().sort();
    const lines: StripData = {
      position: source.position, begin: source.begin, unit: head.stacks[chosen]!.unit, up: 'CPI', runs: [...Array(n).keys()].filter((i) => i && source.segments[i] !== source.segments[i - 1]),
      lines: [{ values: measured, css: 'pkl-measured' }, ...(shownFit ? [{ values: shownFit.predicted, css: 'pkl-predicted', at: shownFit.data.at }] : [])],
      top: sorted[Math.floor(0.998 * (n - 1))]! * 1.1,
    };
    if (stripOf !== chosen || !strip) {
      strip?.destroy();
      stripOf = chosen;
      strip = new Strip(lines, 'CPI over time', (to) => change(() => (stretch = to)));
      stripPlace.replaceChildren(strip.element);
    }
    strip.show(stretch, lines);
    timeLegend.replaceChildren(key(`${head.stacks[chosen]!.kind} CPI`, 'var(--pkl-cloud)', 'line'), ...(shownFit ? [key('predicted by the stack', 'var(--pkl-accent)', 'line')] : []));
  }

  function drawTable(): void {
    const now = fits[chosen]!;
    if (!rows.open || now instanceof NoStack) return;
    const cells = ['base', ...now.data.events].map((part, i) => [part, short(now.components[i]!, 4), percent(now.components[i]! / now.cpi, 1), i ? short(now.penalties[i - 1]!, 4) : '–', short(now.other[i]!, 4)]);
    rows.replaceChildren(rows.firstElementChild!, table(`CPI stack of ${head.stacks[chosen]!.name} (${head.stacks[chosen]!.kind}), without bootstrap intervals`, ['part', 'CPI', 'share', 'cycles each', 'CPI by the other form'], cells));
  }

  draw();
  const names = head.stacks.map(({ name }) => name);
  return {
    take: (state: State) => {
      const read = new Reader(state);
      chosen = names.indexOf(read.one('stack', names, names[0]!));
      form = read.one('form', ['ipc', 'cpi'], opening.form);
      method = read.one('method', ['nnls', 'ols', 'huber'], opening.method);
      sums = Number(read.one('sums', steps.map(String), `${opening.sums}`));
      off = new Set(read.some('off', head.events, head.off));
      stretch = read.stretch('window', data[chosen]!.cycles.length);
      draw();
      return read.unknown(['stack', 'form', 'method', 'sums', 'off', 'window']);
    },
    state: () => ({
      ...(chosen ? { stack: names[chosen] } : {}),
      ...(form === opening.form ? {} : { form }),
      ...(method === opening.method ? {} : { method }),
      ...(sums === opening.sums ? {} : { sums: `${sums}` }),
      ...(JSON.stringify([...off].sort()) === JSON.stringify([...head.off].sort()) ? {} : { off: head.events.filter((event) => off.has(event)) }),
      ...(stretch[0] === 0 && stretch[1] === whole()[1] ? {} : { window: [...stretch] }),
    }),
    result: () => {
      const now = fits[chosen]!;
      if (now instanceof NoStack) return { why: now.message };
      return {
        events: now.data.events, left_out: now.leftOut.map(({ event }) => event), base: now.base, cpi: now.cpi, r2: now.r2, r2_blocked: now.r2Blocked,
        penalties: [...now.penalties], components: [...now.components], singular: now.data.events.filter((_, i) => now.vif[i] === Infinity), other: [...now.other], predicted: [...now.predicted],
      };
    },
    destroy: () => strip?.destroy(),
  };
}
