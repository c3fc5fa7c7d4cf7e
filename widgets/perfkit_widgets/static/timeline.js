// Executed instructions over cycles, on a canvas: each row one instruction from dispatch to retirement. Drag to move, use the
// buttons or keys to zoom; the chosen instruction's dependences are drawn as arrows, back to the window's start.
const ROW = 17, AXIS = 22, GUTTER = 268, HEIGHT = 460;
const WAIT = 'rgba(154, 165, 177, 0.55)', RUN = '#0072B2', DONE = 'rgba(154, 165, 177, 0.22)', ARROW = '#D55E00';

const floats = (view) => new Float64Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));

function render({ model, el }) {
  el.classList.add('pk-view', 'pk-timeline');
  const bar = document.createElement('div');
  bar.className = 'pk-l-bar';
  const canvas = document.createElement('canvas');
  canvas.tabIndex = 0;
  canvas.setAttribute('role', 'application');
  canvas.setAttribute('aria-label', 'Schedule: up and down choose an instruction, left and right move, plus and minus zoom, 0 resets');
  const words = document.createElement('div');
  words.setAttribute('aria-live', 'polite');
  words.className = 'pk-hint';
  el.append(bar, canvas, words);
  const context = canvas.getContext('2d');
  let times, n = 0, first = 0, row0 = 0, x0 = 0, span = 60, width = 800;

  const at = (i, k) => times[6 * i + k]; // dispatch, start, end, retire, static instruction, parent
  const text = (i) => model.get('texts')[at(i, 4)] ?? '';
  const visible = () => Math.floor((HEIGHT - AXIS) / ROW);
  const x = (cycle) => GUTTER + ((cycle - x0) / span) * (width - GUTTER);

  function load() {
    times = floats(model.get('times'));
    n = times.length / 6;
    first = model.get('first');
    reset();
  }

  function reset() {
    row0 = 0;
    if (!n) return;
    const last = Math.min(n, visible()) - 1;
    let end = 0;
    for (let i = 0; i <= last; i++) end = Math.max(end, at(i, 3));
    x0 = at(0, 0) - 1;
    span = Math.max(12, end - x0 + 1);
    draw();
  }

  function chain() {
    const rows = [];
    for (let i = model.get('selected') - first; i >= 0 && i < n && rows.length < 10000; i = at(i, 5) - first) rows.push(i);
    return rows;
  }

  function draw() {
    if (!canvas.isConnected || !n) return;
    width = Math.max(480, el.clientWidth || 900);
    const scale = window.devicePixelRatio || 1;
    Object.assign(canvas, { width: width * scale, height: HEIGHT * scale });
    Object.assign(canvas.style, { width: `${width}px`, height: `${HEIGHT}px` });
    context.setTransform(scale, 0, 0, scale, 0, 0);
    const style = getComputedStyle(el), ink = style.color;
    context.clearRect(0, 0, width, HEIGHT);
    axis(ink);
    const from = Math.max(0, Math.floor(row0)), to = Math.min(n, Math.ceil(row0 + visible()) + 1);
    const chosen = model.get('selected') - first, causes = chain(), blamed = new Set(causes);
    context.save();
    context.beginPath();
    context.rect(0, AXIS, width, HEIGHT - AXIS);
    context.clip();
    for (let i = from; i < to; i++) {
      const y = middle(i);
      if (i === chosen) {
        context.fillStyle = 'rgba(213, 94, 0, 0.14)';
        context.fillRect(0, y - ROW / 2, width, ROW);
      }
      context.fillStyle = blamed.has(i) ? ARROW : ink;
      context.font = `${i === chosen ? '700 ' : ''}11.5px ${style.getPropertyValue('--jp-code-font-family') || 'monospace'}`;
      const name = text(i);
      context.fillText(name.length > 36 ? `${name.slice(0, 35)}…` : name, 6, y + 4);
    }
    context.beginPath();
    context.rect(GUTTER, AXIS, width - GUTTER, HEIGHT - AXIS);
    context.clip();
    for (let i = from; i < to; i++) {
      const y = middle(i);
      for (const [a, b, colour, tall] of [[0, 1, WAIT, 5], [1, 2, RUN, 11], [2, 3, DONE, 5]]) {
        context.fillStyle = colour;
        const left = x(at(i, a));
        context.fillRect(left, y - tall / 2, Math.max(at(i, b) > at(i, a) ? 1 : 0, x(at(i, b)) - left), tall);
      }
    }
    arrows(causes);
    context.restore();
    tell(chosen, causes);
  }

  const middle = (i) => AXIS + (i - row0 + 0.5) * ROW;

  function axis(ink) {
    const rough = span / 9, ten = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(1, [1, 2, 5, 10].map((m) => m * ten).find((s) => s >= rough));
    context.font = '11px sans-serif';
    context.textAlign = 'center';
    for (let c = Math.ceil(x0 / step) * step; c <= x0 + span; c += step) {
      context.fillStyle = 'rgba(128, 128, 128, 0.22)';
      context.fillRect(x(c), AXIS - 3, 1, HEIGHT);
      context.fillStyle = ink;
      context.fillText(c.toLocaleString('en'), x(c), 13);
    }
    context.textAlign = 'left';
    context.fillText('cycle →', 6, 13);
  }

  // From the end of what was waited for to the start of what waited.
  function arrows(rows) {
    context.strokeStyle = context.fillStyle = ARROW;
    context.lineWidth = 1.5;
    for (let k = 0; k + 1 < rows.length; k++) {
      const to = [x(at(rows[k], 1)), middle(rows[k])], from = [x(at(rows[k + 1], 2)), middle(rows[k + 1])];
      if (Math.max(to[1], from[1]) < 0 || Math.min(to[1], from[1]) > HEIGHT) continue;
      context.beginPath();
      context.moveTo(...from);
      context.lineTo(from[0], to[1] - 6);
      context.stroke();
      context.beginPath();
      context.moveTo(to[0], to[1] - 2);
      context.lineTo(from[0] - 4, to[1] - 9);
      context.lineTo(from[0] + 4, to[1] - 9);
      context.fill();
    }
  }

  function tell(i, causes) {
    if (i < 0 || i >= n) {
      words.textContent = 'Click an instruction to see what it waited for. Drag to move; + and − zoom, arrow keys move and choose, 0 resets.';
      return;
    }
    const cycles = (k) => at(i, k).toLocaleString('en', { maximumFractionDigits: 2 });
    const earlier = at(i, 5) >= 0 ? `; last waited for instruction ${at(i, 5)}, before this window` : '; waited for no other result';
    const parent = causes.length > 1 ? `; last waited for ${text(causes[1])} (instruction ${first + causes[1]})` : earlier;
    words.textContent = `Instruction ${first + i}: ${text(i)}. Dispatched at ${cycles(0)}, started ${cycles(1)}, ended ${cycles(2)}, retired ${cycles(3)}${parent}.${causes.length > 1 ? ` Arrows: ${causes.length - 1} dependences back.` : ''}`;
  }

  // Time goes with the rows, so that the window stays on the diagonal.
  function rowsBy(rows) {
    const before = Math.min(n - 1, Math.max(0, Math.round(row0)));
    row0 = Math.min(Math.max(0, n - visible()), Math.max(0, row0 + rows));
    const after = Math.min(n - 1, Math.max(0, Math.round(row0)));
    x0 += at(after, 0) - at(before, 0);
  }

  function zoom(factor, place = x0 + span / 3) {
    const wider = Math.min(1e6, Math.max(6, span * factor));
    x0 = place - ((place - x0) * wider) / span;
    span = wider;
    draw();
  }

  function choose(i) {
    model.set('selected', i < 0 ? -1 : first + i);
    model.save_changes();
    draw();
  }

  function show() {
    const i = model.get('selected') - first;
    if (i >= 0 && i < n && (i < row0 || i > row0 + visible() - 2)) rowsBy(i - row0 - visible() / 2);
    draw();
  }

  function keys(event) {
    const i = model.get('selected') - first, chosen = i >= 0 && i < n;
    const acts = {
      ArrowDown: () => choose(chosen ? Math.min(n - 1, i + 1) : Math.ceil(row0)),
      ArrowUp: () => choose(chosen ? Math.max(0, i - 1) : Math.ceil(row0)),
      PageDown: () => rowsBy(visible()),
      PageUp: () => rowsBy(-visible()),
      ArrowRight: () => (x0 += span / 8),
      ArrowLeft: () => (x0 -= span / 8),
      '+': () => zoom(1 / 1.5),
      '=': () => zoom(1 / 1.5),
      '-': () => zoom(1.5),
      0: reset,
      Escape: () => choose(-1),
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey) return;
    acts[event.key]();
    draw();
    event.preventDefault();
    event.stopPropagation();
  }

  let drag = null;
  const down = (event) => {
    drag = { x: event.clientX, y: event.clientY, moved: false, at: x0, row: row0 };
    canvas.setPointerCapture(event.pointerId);
  };
  const move = (event) => {
    if (!drag) return;
    drag.moved ||= Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > 4;
    if (!drag.moved) return;
    x0 = drag.at - ((event.clientX - drag.x) / (width - GUTTER)) * span;
    row0 = Math.min(Math.max(0, n - visible()), Math.max(0, drag.row - (event.clientY - drag.y) / ROW));
    draw();
  };
  const up = (event) => {
    if (drag && !drag.moved) {
      const i = Math.floor((event.clientY - canvas.getBoundingClientRect().top - AXIS) / ROW + row0);
      if (i >= 0 && i < n) choose(i);
    }
    drag = null;
  };
  // The page keeps its wheel until the canvas has the focus.
  const wheel = (event) => {
    if (document.activeElement !== canvas) return;
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    if (event.shiftKey || event.ctrlKey) {
      const cycle = x0 + ((event.clientX - box.left - GUTTER) / (width - GUTTER)) * span;
      zoom(event.deltaY + event.deltaX > 0 ? 1.2 : 1 / 1.2, cycle);
    } else {
      rowsBy(Math.sign(event.deltaY) * 3);
      draw();
    }
  };

  const buttons = [
    ['−', 'Zoom out', () => zoom(1.5)],
    ['+', 'Zoom in', () => zoom(1 / 1.5)],
    ['▲', 'Earlier instructions', () => (rowsBy(-visible() / 2), draw())],
    ['▼', 'Later instructions', () => (rowsBy(visible() / 2), draw())],
    ['Start', 'Back to the start of the window', reset],
  ];
  for (const [label, title, act] of buttons) {
    const button = document.createElement('button');
    Object.assign(button, { type: 'button', textContent: label, title });
    button.setAttribute('aria-label', title);
    button.addEventListener('click', act);
    bar.append(button);
  }
  const legend = document.createElement('span');
  for (const [label, colour] of [['waits', WAIT], ['executes', RUN], ['waits to retire', DONE], ['was waited for', ARROW]]) {
    const key = document.createElement('span'), box = document.createElement('i');
    key.className = 'pk-key';
    box.className = 'bar';
    box.style.background = colour;
    key.append(box, label);
    legend.append(key);
  }
  bar.append(legend);
  canvas.addEventListener('keydown', keys);
  canvas.addEventListener('pointerdown', down);
  canvas.addEventListener('pointermove', move);
  canvas.addEventListener('pointerup', up);
  canvas.addEventListener('wheel', wheel, { passive: false });
  model.on('change:times', load);
  model.on('change:selected', show);
  const resized = new ResizeObserver(draw);
  resized.observe(el);
  load();
  requestAnimationFrame(show);
  return () => {
    resized.disconnect();
    model.off('change:times', load);
    model.off('change:selected', show);
  };
}

export default { render };
