// A window of the schedule over cycles, on a canvas. Rows are resources (bars: which instruction occupied them when) or
// executed instructions (from dispatch to retirement). The chosen instruction's dependences are drawn as arrows: what it
// last waited for, back to the window's start, and where its other operands came from.
const ROW = 17, AXIS = 22, LANE = 11, THIN = 8, GAP = 7, LEAST = 260, MOST = 560, SHOWN = 26, DRAWN = 100_000;
// Each at least 3:1 on a light and on a dark page.
const WAIT = '#7F8C99', RUN = '#0072B2', MEMORY = '#009E73', DONE = '#8794A1', ARROW = '#D55E00', OTHER = '#B05A91', OUTSIDE = 'rgba(128, 128, 128, 0.16)';
// Of instructions; the chosen one is drawn in the arrows' colour.
const COLOURS = ['#0072B2', '#3D98CC', '#009E73', '#7F8FA6', '#8A7CCB', '#4E9A9A', '#908A35', '#6C7A89'];

// Black or white, whichever is read better on a colour.
const inkOn = (colour) => {
  const [r, g, b] = [1, 3, 5].map((at) => (parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? '#111' : '#fff';
};
const floats = (view) => new Float64Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
// To the even number where halves are rounded, as Python does: tables say 12 % of 12.5, too.
const percent = (share) => {
  const whole = Math.round(100 * share);
  return (100 * share) % 1 === 0.5 && whole % 2 ? whole - 1 : whole;
};
const number = (value, digits = 2) => value.toLocaleString('en', { maximumFractionDigits: digits }).replace(/^-0$/, '0');
const cycles = (value) => (number(value) === '1' ? '1 cycle' : `${number(value)} cycles`);

function render({ model, el }) {
  el.classList.add('pk-view', 'pk-timeline');
  const bar = document.createElement('div');
  bar.className = 'pk-l-bar';
  const canvas = document.createElement('canvas');
  canvas.tabIndex = 0;
  canvas.setAttribute('role', 'application');
  canvas.setAttribute('aria-label', 'Timeline: up and down choose an instruction, left and right move, plus and minus zoom, m changes the rows, 0 resets');
  const words = document.createElement('div');
  words.setAttribute('aria-live', 'polite');
  words.className = 'pk-hint';
  el.append(bar, canvas, words);
  const context = canvas.getContext('2d');
  let times, uses, resources = [], n = 0, first = 0, row0 = 0, x0 = 0, span = 60, width = 800, height = MOST;
  let lane = LANE, longest = 0, pairs = new Float64Array(0), tops = [], full = 0;

  const at = (i, k) => times[8 * i + k]; // dispatch, start, end, retire, number of the text, parent, operate, number of the wait
  const use = (j, k) => uses[5 * j + k]; // resource, lane, n, start, end
  const text = (i) => model.get('texts')[at(i, 4)] ?? '';
  const byResource = () => model.get('mode') === 'resources' && resources.length > 0;
  const gutter = () => (byResource() ? 148 : 268);
  const visible = () => Math.floor((height - AXIS) / ROW);
  const cycleAt = (px) => x0 + ((px - gutter()) / (width - gutter())) * span;
  const x = (cycle) => gutter() + ((cycle - x0) / span) * (width - gutter());
  const inside = (i) => i >= 0 && i < n;
  const chosen = () => model.get('selected') - first;

  function load() {
    times = floats(model.get('times'));
    uses = floats(model.get('uses'));
    resources = model.get('resources');
    n = times.length / 8;
    first = model.get('first');
    longest = 0;
    for (let j = 0; j < uses.length / 5; j++) longest = Math.max(longest, use(j, 4) - use(j, 3));
    pairs = floats(model.get('producers'));
    const lanes = resources.reduce((sum, r) => sum + r.units, 0);
    lane = AXIS + GAP * (resources.length + 1) + LANE * lanes > MOST ? THIN : LANE;
    let top = AXIS + GAP;
    tops = resources.map((r) => {
      const here = top;
      top += r.units * lane + GAP;
      return here;
    });
    full = top;
    reset();
  }

  function reset() {
    row0 = 0;
    if (!n) return;
    height = byResource() ? Math.max(LEAST, full) : AXIS + SHOWN * ROW;
    if (byResource()) {
      // Where nothing is missing; few enough cycles to tell bars apart.
      const [a, b] = model.get('complete');
      const begin = b > a ? a : at(0, 0);
      const end = b > a ? b : at(n - 1, 3);
      span = Math.max(12, Math.min(end - begin, 60));
      x0 = b > a ? begin + Math.max(0, (end - begin - span) / 2) : begin - 1;
      if (inside(chosen())) centre();
    } else {
      const last = Math.min(n, visible()) - 1;
      let end = 0;
      for (let i = 0; i <= last; i++) end = Math.max(end, at(i, 3));
      x0 = at(0, 0) - 1;
      span = Math.max(12, end - x0 + 1);
    }
    draw();
  }

  // So that the chosen instruction's operation lies right of the middle, and what it waited for left of it.
  function centre() {
    const start = at(chosen(), 1), end = at(chosen(), 2);
    span = Math.max(span, 1.6 * (end - start));
    x0 = end - 0.7 * span;
  }

  function chain() {
    const rows = [];
    for (let i = chosen(); inside(i) && rows.length < 10000; i = at(i, 5) - first) rows.push(i);
    return rows;
  }

  function draw() {
    if (!canvas.isConnected || !n) return;
    width = Math.max(480, el.clientWidth || 900);
    const scale = window.devicePixelRatio || 1;
    Object.assign(canvas, { width: width * scale, height: height * scale });
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    context.setTransform(scale, 0, 0, scale, 0, 0);
    const style = getComputedStyle(el), ink = style.color;
    context.clearRect(0, 0, width, height);
    axis(ink);
    const causes = chain();
    context.save();
    context.beginPath();
    context.rect(0, AXIS, width, height - AXIS);
    context.clip();
    (byResource() ? drawResources : drawInstructions)(causes, style, ink);
    if (drag?.zooms && drag.moved) {
      context.fillStyle = 'rgba(0, 114, 178, 0.2)';
      context.fillRect(Math.min(drag.from, drag.to), AXIS, Math.abs(drag.to - drag.from), height);
    }
    context.restore();
    rows.textContent = byResource() ? 'Rows: resources' : 'Rows: instructions';
    rows.title = resources.length ? 'Change what the rows are (key m)' : 'This window holds no resources: see pk.timeline';
    rows.disabled = !resources.length;
    legend();
    canvas.dataset.mode = byResource() ? 'resources' : 'instructions';
    canvas.dataset.span = span.toFixed(3);
    tell(causes);
  }

  function clipToCycles() {
    context.beginPath();
    context.rect(gutter(), AXIS, width - gutter(), height - AXIS);
    context.clip();
  }

  // ---------------------------------------------------------------- instructions

  const middle = (i) => AXIS + (i - row0 + 0.5) * ROW;

  function drawInstructions(causes, style, ink) {
    const from = Math.max(0, Math.floor(row0)), to = Math.min(n, Math.ceil(row0 + visible()) + 1);
    const mine = chosen(), blamed = new Set(causes);
    for (let i = from; i < to; i++) {
      const y = middle(i);
      if (i === mine) {
        context.fillStyle = 'rgba(213, 94, 0, 0.14)';
        context.fillRect(0, y - ROW / 2, width, ROW);
      }
      context.fillStyle = blamed.has(i) ? style.getPropertyValue('--pk-blamed') : ink;
      context.font = `${i === mine ? '700 ' : ''}11.5px ${style.getPropertyValue('--jp-code-font-family') || 'monospace'}`;
      context.fillText(fitted(text(i), gutter() - 14), 6, y + 4);
    }
    clipToCycles();
    for (let i = from; i < to; i++) {
      const y = middle(i);
      for (const [a, b, colour, tall] of [[0, 1, WAIT, 5], [1, 6, MEMORY, 7], [6, 2, RUN, 11], [2, 3, DONE, 5]]) {
        const left = x(at(i, a)), wide = Math.max(at(i, b) > at(i, a) ? 1 : 0, x(at(i, b)) - left);
        context.fillStyle = context.strokeStyle = colour;
        context.lineWidth = 1;
        if (colour !== DONE) context.fillRect(left, y - tall / 2, wide, tall);
        else if (wide) context.strokeRect(left + 0.5, y - tall / 2 + 0.5, Math.max(0, wide - 1), tall - 1);
      }
    }
    const place = (i) => [middle(i), middle(i)];
    if (inside(mine)) others(mine, causes[1], place);
    for (let k = 0; k + 1 < causes.length; k++) arrow(causes[k + 1], causes[k], ARROW, place);
  }

  // ---------------------------------------------------------------- resources

  // Uses come sorted by their start: the first one that starts at a cycle or later.
  function firstFrom(cycle) {
    let low = 0, high = uses.length / 5;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (use(middle, 3) < cycle) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // An instruction's uses lie between its dispatch and its retirement.
  function usesOf(i) {
    const found = [], until = at(i, 3) + longest;
    for (let j = firstFrom(at(i, 0) - longest - 1); j < uses.length / 5 && use(j, 3) <= until; j++) {
      if (use(j, 2) - first === i) found.push(j);
    }
    return found;
  }

  // Pairs of an instruction and what made its operand come sorted by the instruction.
  function producersOf(i) {
    let low = 0, high = pairs.length / 2;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[2 * middle] < i + first) low = middle + 1;
      else high = middle;
    }
    const found = [];
    for (let k = low; k < pairs.length / 2 && pairs[2 * k] === i + first; k++) found.push(pairs[2 * k + 1] - first);
    return found;
  }

  const laneMiddle = (j) => tops[use(j, 0)] + (use(j, 1) + 0.5) * lane;

  // The use that stands for an instruction where arrows begin and end: its operation's, on the fewest ports.
  function mainUse(i) {
    let best = -1;
    const own = usesOf(i);
    for (const j of own) {
      if (resources[use(j, 0)].kind !== 'ports') continue;
      const rank = (q) => 1000 * use(q, 3) - resources[use(q, 0)].units;
      if (best < 0 || rank(j) > rank(best)) best = j;
    }
    return best >= 0 ? best : (own[0] ?? -1);
  }

  function drawResources(causes, style, ink) {
    const blamed = new Set(causes.slice(1)), mine = chosen();
    const made = new Set(inside(mine) ? producersOf(mine) : []);
    resources.forEach((r, k) => {
      const y = tops[k], tall = r.units * lane;
      if (k && resources[k - 1].kind !== r.kind) {
        context.fillStyle = 'rgba(128, 128, 128, 0.5)';
        context.fillRect(0, y - GAP / 2 - 0.5, width, 1);
      }
      context.fillStyle = 'rgba(128, 128, 128, 0.09)';
      context.fillRect(gutter(), y, width - gutter(), tall);
      context.fillStyle = ink;
      context.font = '11.5px sans-serif';
      context.textBaseline = 'middle';
      context.fillText(fitted(r.name, gutter() - 52), 6, y + tall / 2);
      context.textAlign = 'right';
      context.fillText(`${percent(r.busy)} %`, gutter() - 8, y + tall / 2);
      context.textAlign = 'left';
      context.textBaseline = 'alphabetic';
    });
    clipToCycles();
    context.font = `9px ${style.getPropertyValue('--jp-code-font-family') || 'monospace'}`;
    // Of uses that fall on one pixel of a lane, one is drawn: a window of a million instructions costs no more than
    // what the screen can show.
    const from = firstFrom(x0 - longest), to = firstFrom(x0 + span), filled = new Map();
    const step = Math.max(1, Math.floor((to - from) / DRAWN));
    for (let j = from; j < to; j += step) {
      const start = use(j, 3), end = use(j, 4);
      if (end < x0) continue;
      const row = 64 * use(j, 0) + use(j, 1), pixel = Math.floor(x(end));
      if (filled.get(row) === pixel && use(j, 2) - first !== mine) continue;
      filled.set(row, pixel);
      const i = use(j, 2) - first, left = x(start), wide = Math.max(1, x(end) - left - 0.5), y = laneMiddle(j);
      context.fillStyle = i === mine || blamed.has(i) ? ARROW : made.has(i) ? OTHER : COLOURS[at(i, 4) % COLOURS.length];
      context.fillRect(left, y - lane / 2 + 1, wide, lane - 2);
      if (i === mine) {
        context.strokeStyle = ink;
        context.lineWidth = 1.5;
        context.strokeRect(left, y - lane / 2 + 1, wide, lane - 2);
      }
      const name = text(i).split(' ')[0];
      if (lane >= LANE && wide > 5.6 * name.length + 4) {
        context.fillStyle = inkOn(context.fillStyle);
        context.fillText(name, left + 3, y + 3);
      }
    }
    missing();
    const place = (i) => [mainUse(i), mainUse(i)].map((j) => (j === undefined || j < 0 ? NaN : laneMiddle(j)));
    if (inside(mine)) others(mine, causes[1], place);
    for (let k = 0; k + 1 < causes.length; k++) arrow(causes[k + 1], causes[k], ARROW, place);
  }

  // Cycles in which instructions outside of the window were at work, too.
  function missing() {
    const [a, b] = model.get('complete');
    if (b <= a) return;
    context.fillStyle = OUTSIDE;
    if (x(a) > gutter()) context.fillRect(gutter(), AXIS, x(a) - gutter(), height);
    if (x(b) < width) context.fillRect(x(b), AXIS, width - x(b), height);
  }

  // ---------------------------------------------------------------- arrows, axis, words

  // Where the operands came from that were there before.
  function others(i, parent, place) {
    for (const p of producersOf(i)) if (p !== parent && inside(p)) arrow(p, i, OTHER, place);
  }

  // From the end of what was waited for to the start of what waited.
  function arrow(producer, consumer, colour, place) {
    // A load may know its address long before the store that it waits for has its value.
    // What waited for a resource did not wait for the end of the instruction that used it before: it began when that left it.
    // What waited for an entry of a buffer was dispatched when it got one.
    const used = colour === ARROW && !producersOf(consumer).includes(producer);
    const through = model.get('waits')[at(consumer, 7)];
    let needed = Math.max(at(consumer, 1), Math.min(at(producer, 2), at(consumer, 2)));
    if (used && !through && resources.length) needed = at(consumer, 0);
    else if (used && through && through !== 'a cache line') needed = at(consumer, 1);
    const ready = Math.min(at(producer, 2), needed);
    const from = [x(ready), place(producer)[0]], to = [x(needed), place(consumer)[1]];
    if (!(Number.isFinite(from[1]) && Number.isFinite(to[1]))) return;
    if (Math.max(to[1], from[1]) < 0 || Math.min(to[1], from[1]) > height) return;
    if (Math.max(to[0], from[0]) < gutter() || Math.min(to[0], from[0]) > width) return;
    arrows.push([producer + first, consumer + first]);
    const down = to[1] >= from[1] ? 1 : -1, flat = Math.abs(to[1] - from[1]) < 2;
    const tip = flat ? to[1] : to[1] - down * 5;
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = consumer === chosen() ? 2 : 1;
    context.beginPath();
    if (byResource()) {
      // From its operation on, how long its result took; then across to where it was needed.
      context.moveTo(Math.min(x(use(mainUse(producer), 3)), from[0]), from[1]);
      context.lineTo(...from);
    } else context.moveTo(...from);
    if (flat) context.lineTo(to[0] - 5, tip);
    else if (byResource()) context.lineTo(to[0], tip - down * 3);
    else context.lineTo(from[0], tip - down * 1);
    context.stroke();
    // An instruction's row spans its wait: the arrow meets it when the operand was there.
    const head = byResource() || flat ? to[0] : from[0];
    context.beginPath();
    if (flat) {
      context.moveTo(to[0], tip);
      context.lineTo(to[0] - 7, tip - 4);
      context.lineTo(to[0] - 7, tip + 4);
    } else {
      context.moveTo(head, tip + down * 3);
      context.lineTo(head - 4, tip - down * 4);
      context.lineTo(head + 4, tip - down * 4);
    }
    context.fill();
  }

  let arrows = [];

  function axis(ink) {
    arrows = [];
    const rough = span / 9, ten = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(1, [1, 2, 5, 10].map((m) => m * ten).find((s) => s >= rough));
    context.font = '11px sans-serif';
    context.textAlign = 'center';
    for (let c = Math.ceil(x0 / step) * step; c <= x0 + span; c += step) {
      if (x(c) < gutter()) continue;
      context.fillStyle = 'rgba(128, 128, 128, 0.22)';
      context.fillRect(x(c), AXIS - 3, 1, height);
      context.fillStyle = ink;
      const label = number(c), half = context.measureText(label).width / 2;
      if (x(c) - half > gutter() - 4 && x(c) + half < width) context.fillText(label, x(c), 13);
    }
    context.textAlign = 'left';
    context.fillStyle = ink;
    context.fillText(byResource() ? 'capacity used' : 'instruction', 6, 13);
    context.textAlign = 'right';
    context.fillText('cycle', gutter() - 10, 13);
    context.textAlign = 'left';
  }

  function fitted(label, room) {
    if (context.measureText(label).width <= room) return label;
    let short = label;
    while (short.length > 1 && context.measureText(`${short}…`).width > room) short = short.slice(0, -1);
    return `${short}…`;
  }

  const named = (i) => `${text(i)} (instruction ${i + first})`;

  // What an instruction waited for, up to the name of the one before that had it.
  function reason(i, parent) {
    if (!resources.length || producersOf(i).includes(parent)) return '';
    const through = model.get('waits')[at(i, 7)];
    if (through === 'a cache line') return 'a cache line on its way to ';
    return through ? `${through}, in use by ` : 'an entry of a buffer, held by ';
  }

  function tell(causes) {
    const i = chosen();
    canvas.dataset.arrows = JSON.stringify(arrows);
    if (!inside(i)) {
      const what = byResource() ? 'Click a bar to see its instruction and where its operands came from.' : 'Click an instruction to see what it waited for.';
      words.textContent = `${what} Drag to move, Shift and drag to zoom into a stretch; + and − zoom, arrow keys move and choose, 0 resets.`;
      return;
    }
    const before = at(i, 5) - first, of = inside(before) ? named(before) : `instruction ${at(i, 5)}, before this window`;
    const parent = at(i, 5) >= 0 ? `; last waited for ${reason(i, before)}${of}` : '; waited for no other result';
    const rest = producersOf(i).filter((p) => p !== causes[1] && inside(p));
    const more = rest.length ? ` Other operands came from ${rest.slice(0, 4).map(named).join(', ')}${rest.length > 4 ? ', …' : ''}.` : '';
    const back = causes.length > 1 ? ` Orange arrows: ${causes.length - 1} waits back.` : '';
    words.textContent = `Instruction ${first + i}: ${text(i)}. Dispatched at ${number(at(i, 0))}, started ${number(at(i, 1))}, ${at(i, 6) > at(i, 1) + 0.01 ? `waited ${cycles(at(i, 6) - at(i, 1))} for memory, ` : ''}executed for ${cycles(at(i, 2) - at(i, 6))}, ended ${number(at(i, 2))}, retired ${number(at(i, 3))}${parent}.${more}${back}`;
  }

  // ---------------------------------------------------------------- moving

  // Time goes with the rows, so that the window stays on the diagonal.
  function rowsBy(count) {
    if (byResource()) return;
    const before = Math.min(n - 1, Math.max(0, Math.round(row0)));
    row0 = Math.min(Math.max(0, n - visible()), Math.max(0, row0 + count));
    const after = Math.min(n - 1, Math.max(0, Math.round(row0)));
    x0 += at(after, 0) - at(before, 0);
  }

  function zoom(factor, place = x0 + span / 2, then = draw) {
    const wider = Math.min(1e8, Math.max(6, span * factor));
    x0 = place - ((place - x0) * wider) / span;
    span = wider;
    then();
  }

  const along = (share, then = draw) => {
    x0 += share * span;
    then();
  };

  function choose(i) {
    model.set('selected', i < 0 ? -1 : first + i);
    model.save_changes();
    draw();
  }

  function show() {
    const i = chosen();
    if (inside(i)) {
      if (byResource()) {
        if (at(i, 1) < x0 + 0.02 * span || at(i, 2) > x0 + 0.98 * span) centre();
      } else if (i < row0 || i > row0 + visible() - 2) rowsBy(i - row0 - visible() / 2);
    }
    draw();
  }

  // The instruction whose operation starts nearest to the middle of what is seen.
  function nearest() {
    let best = 0;
    for (let i = 1; i < n; i++) if (Math.abs(at(i, 1) - x0 - span / 2) < Math.abs(at(best, 1) - x0 - span / 2)) best = i;
    return byResource() ? best : Math.ceil(row0);
  }

  function changeRows() {
    if (!resources.length) return;
    model.set('mode', byResource() ? 'instructions' : 'resources');
    model.save_changes();
  }

  function remode() {
    reset();
    show();
  }

  function keys(event) {
    const i = chosen();
    const acts = {
      ArrowDown: () => choose(inside(i) ? Math.min(n - 1, i + 1) : nearest()),
      ArrowUp: () => choose(inside(i) ? Math.max(0, i - 1) : nearest()),
      PageDown: () => (byResource() ? along(0.8) : rowsBy(visible())),
      PageUp: () => (byResource() ? along(-0.8) : rowsBy(-visible())),
      ArrowRight: () => along(1 / 8),
      ArrowLeft: () => along(-1 / 8),
      '+': () => zoom(1 / 1.5),
      '=': () => zoom(1 / 1.5),
      '-': () => zoom(1.5),
      0: reset,
      m: changeRows,
      Escape: () => choose(-1),
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey) return;
    acts[event.key]();
    draw();
    event.preventDefault();
    event.stopPropagation();
  }

  // The bar under the pointer, or -1.
  function hit(event) {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    const cycle = cycleAt(px), slack = (2 * span) / (width - gutter());
    let best = -1;
    if (px < gutter()) return best; // a bar that lies under the names is not seen
    for (let j = firstFrom(cycle - slack - longest); j < uses.length / 5 && use(j, 3) <= cycle + slack; j++) {
      if (Math.abs(laneMiddle(j) - py) > lane / 2 || cycle < use(j, 3) - slack || cycle > use(j, 4) + slack) continue;
      best = j;
    }
    return best;
  }

  // The resource whose name or lanes lie under the pointer, in words.
  function resourceAt(event) {
    const py = event.clientY - canvas.getBoundingClientRect().top;
    const k = resources.findIndex((r, j) => py >= tops[j] - GAP / 2 && py < tops[j] + r.units * lane + GAP / 2);
    if (k < 0 || py < AXIS) return '';
    const { name, kind, units, busy } = resources[k];
    return `${name} (${kind}): ${units > 1 ? `${units} at a time` : 'one at a time'}, ${number(100 * busy, 0)} % used in this window`;
  }

  const rowAt = (event) => Math.floor((event.clientY - canvas.getBoundingClientRect().top - AXIS) / ROW + row0);

  let drag = null;
  const inPicture = (event) => Math.min(width, Math.max(gutter(), event.clientX - canvas.getBoundingClientRect().left));
  const down = (event) => {
    const from = inPicture(event);
    drag = { x: event.clientX, y: event.clientY, moved: false, at: x0, row: row0, zooms: event.shiftKey, from, to: from };
    canvas.setPointerCapture(event.pointerId);
  };
  // A notebook takes Shift and a press for a choice of cells, and the keys with it.
  const keep = (event) => {
    if (!event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    canvas.focus();
  };
  // Pointers and wheels report faster than the screen draws.
  let pending = 0;
  const drawSoon = () => {
    pending ||= requestAnimationFrame(() => {
      pending = 0;
      draw();
    });
  };
  const move = (event) => {
    if (!drag) {
      if (!byResource()) {
        const i = rowAt(event);
        canvas.title = inside(i) ? `${named(i)}: dispatched ${number(at(i, 0))}, started ${number(at(i, 1))}, operates from ${number(at(i, 6))}, ended ${number(at(i, 2))}, retired ${number(at(i, 3))}` : '';
        canvas.style.cursor = inside(i) ? 'pointer' : 'grab';
        return;
      }
      const j = hit(event);
      canvas.title = j < 0 ? resourceAt(event) : `${resources[use(j, 0)].name}: ${named(use(j, 2) - first)}, cycles ${number(use(j, 3))} to ${number(use(j, 4))}`;
      canvas.style.cursor = j < 0 ? 'grab' : 'pointer';
      return;
    }
    drag.moved ||= Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > 4;
    if (!drag.moved) return;
    if (drag.zooms) {
      drag.to = inPicture(event);
      drawSoon();
      return;
    }
    x0 = drag.at - ((event.clientX - drag.x) / (width - gutter())) * span;
    const most = byResource() ? 0 : Math.max(0, n - visible());
    row0 = Math.min(most, Math.max(0, Math.round(drag.row - (event.clientY - drag.y) / ROW))); // whole rows
    drawSoon();
  };
  const up = (event) => {
    if (drag && !drag.moved) {
      if (byResource()) {
        const j = hit(event);
        choose(j < 0 ? -1 : use(j, 2) - first);
      } else {
        const i = rowAt(event);
        if (inside(i)) choose(i);
      }
    }
    if (drag?.zooms && drag.moved) {
      const a = cycleAt(Math.min(drag.from, drag.to)), b = cycleAt(Math.max(drag.from, drag.to));
      drag = null;
      x0 = a;
      span = Math.max(6, b - a);
      draw();
    }
    drag = null;
  };
  // The page keeps its wheel until the canvas has the focus.
  const wheel = (event) => {
    if (document.activeElement !== canvas) return;
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    if (event.shiftKey || event.ctrlKey) {
      zoom(event.deltaY + event.deltaX > 0 ? 1.2 : 1 / 1.2, cycleAt(event.clientX - box.left), drawSoon);
    } else if (byResource()) along(Math.sign(event.deltaY || event.deltaX) / 10, drawSoon);
    else {
      rowsBy(Math.sign(event.deltaY) * 3);
      drawSoon();
    }
  };

  function button(label, title, act) {
    const made = document.createElement('button');
    Object.assign(made, { type: 'button', textContent: label, title });
    made.setAttribute('aria-label', title);
    made.addEventListener('click', act);
    bar.append(made);
    return made;
  }
  const page = (way) => (byResource() ? along(way / 2) : (rowsBy((way * visible()) / 2), draw()));
  const rows = button('', 'Change what the rows are', changeRows);
  rows.removeAttribute('aria-label'); // its text says it
  button('−', 'Zoom out', () => zoom(1.5));
  button('+', 'Zoom in', () => zoom(1 / 1.5));
  button('◀', 'Earlier', () => page(-1));
  button('▶', 'Later', () => page(1));
  button('Start', 'Back to the first view of the window', reset);
  const key = document.createElement('span');
  bar.append(key);

  function legend() {
    const [a, b] = model.get('complete'), some = b > a; // `missing` tells where
    const entries = byResource()
      ? [['an instruction each', `linear-gradient(to right, ${COLOURS.slice(0, 4).map((c, k) => `${c} ${25 * k}% ${25 * k + 25}%`).join(', ')})`], ['chosen, and what it waited for', ARROW], ['its other operands', OTHER], ...(some ? [['instructions outside of the window work, too', OUTSIDE]] : [])]
      : [['waits', WAIT], ['waits for memory or a stored value', MEMORY], ['executes', RUN], ['waits to retire', DONE], ['was waited for', ARROW], ...(pairs.length ? [['other operands', OTHER]] : [])];
    if (key.dataset.for === `${byResource()} ${some}`) return;
    key.dataset.for = `${byResource()} ${some}`;
    key.replaceChildren(
      ...entries.map(([label, colour]) => {
        const each = document.createElement('span'), box = document.createElement('i');
        each.className = 'pk-key';
        box.className = 'bar';
        if (colour === DONE) Object.assign(box.style, { border: `1px solid ${colour}`, boxSizing: 'border-box' });
        else box.style.background = colour;
        if (byResource() && colour.startsWith('linear')) box.style.width = '28px';
        each.append(box, label);
        return each;
      }),
    );
  }

  canvas.addEventListener('keydown', keys);
  canvas.addEventListener('pointerdown', down);
  canvas.addEventListener('mousedown', keep);
  canvas.addEventListener('pointermove', move);
  canvas.addEventListener('pointerup', up);
  canvas.addEventListener('wheel', wheel, { passive: false });
  const data = 'change:times change:uses change:resources change:producers change:complete';
  model.on(data, load);
  model.on('change:selected', show);
  model.on('change:mode', remode);
  const resized = new ResizeObserver(draw);
  resized.observe(el);
  load();
  requestAnimationFrame(show);
  return () => {
    cancelAnimationFrame(pending);
    resized.disconnect();
    model.off(data, load);
    model.off('change:selected', show);
    model.off('change:mode', remode);
  };
}

export default { render };
