// Lets the views' controls have their keys: without a mark on the control itself, JupyterLab takes arrow keys on a focused
// list for moves between cells. And lets bars of a ranking be chosen by their whole rows, by their names, and by keys: a
// bar may have no width. Roofs are chosen by a click near their lines. The listeners are the document's, so that they
// wait for no view to be drawn; every view of a page brings its own, and the first that acts tells the others by
// preventDefault.
//
// And keeps the order of acts: while the kernel works on a control's last value, ipywidgets keeps the next one back, but
// sends a click at once, and JupyterLab has messages handled by two threads. A slider moved before "Whole" was pressed
// then overrode it. So a click waits until the kernel is done with the values of its view.
const MIDDLE = (bar) => {
  const { top, bottom } = bar.getBoundingClientRect();
  return (top + bottom) / 2;
};
const ranked = (place) => [...place.querySelectorAll('rect.bar')].sort((a, b) => MIDDLE(a) - MIDDLE(b));
const choose = (bar, event) => {
  event.preventDefault();
  bar?.dispatchEvent(new MouseEvent('click', { bubbles: true }));
};

function click(event) {
  const place = event.target.closest?.('.pk-ranked');
  if (!place || event.defaultPrevented || !event.isTrusted) return;
  place.tabIndex = 0;
  place.focus({ preventScroll: true }); // for the arrow keys
  if (event.target.closest('rect.bar')) return;
  const bars = ranked(place), apart = bars.length > 1 ? MIDDLE(bars[1]) - MIDDLE(bars[0]) : 24;
  const bar = bars.find((one) => Math.abs(MIDDLE(one) - event.clientY) <= apart / 2);
  if (bar) choose(bar, event);
}

function key(event) {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const place = by && !event.defaultPrevented && event.target.closest?.('.pk-ranked');
  if (!place) return;
  const bars = ranked(place), now = bars.findIndex((bar) => bar.style.strokeWidth === '2px');
  choose(bars[now + by], event);
}

// A roof is one or two pixels wide, and has gaps where it is dashed: what lies nearest to the pointer is meant.
const REACH = 8; // pixels
const apart = ([x, y], [ax, ay], [bx, by]) => {
  const along = [bx - ax, by - ay], length = along[0] ** 2 + along[1] ** 2;
  const at = length ? Math.min(1, Math.max(0, ((x - ax) * along[0] + (y - ay) * along[1]) / length)) : 0;
  return Math.hypot(x - ax - at * along[0], y - ay - at * along[1]);
};
const distance = (line, event) => {
  const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(line.getScreenCTM().inverse());
  const points = (line.getAttribute('d') ?? '').match(/[^MLZ]+/g)?.map((pair) => pair.split(',').map(Number)) ?? [];
  return Math.min(...points.slice(1).map((point, k) => apart([x, y], points[k], point)));
};
// The roofs at the pointer: the nearest, and those that lie on it, in the order of the list of roofs.
const TOGETHER = 1.5; // pixels
export function near(event) {
  const lines = [...(event.target.closest?.('.pk-roofs')?.querySelectorAll('path.line') ?? [])];
  const far = lines.filter((line) => line.checkVisibility()).map((line) => [line, distance(line, event)]);
  const least = Math.min(...far.map(([, pixels]) => pixels));
  if (!(least < REACH)) return [];
  const there = far.filter(([, pixels]) => pixels <= least + TOGETHER).map(([line]) => line);
  const roofs = there.filter((line) => line.style.opacity); // without: a thin line to a roof's name
  return roofs.length ? roofs : there;
}
// The chosen roof is the one that has not faded.
const chosen = (line) =>
  line.style.opacity === '1' && [...line.closest('.pk-roofs').querySelectorAll('path.line')].some((one) => Number(one.style.opacity || 1) < 1);
const nearest = (event) => {
  const lines = near(event);
  return lines.find(chosen) ?? lines[0] ?? null;
};

// Where roofs lie on one another, each click chooses the next; a click on the last one takes the choice back.
function clickNear(event) {
  const lines = event.isTrusted ? near(event) : [];
  const line = lines[lines.findIndex(chosen) + 1] ?? lines.at(-1);
  if (!line || line === event.target) return;
  event.stopImmediatePropagation();
  line.dispatchEvent(new MouseEvent('click', { bubbles: true, clientX: event.clientX, clientY: event.clientY }));
}

// The tooltip of the nearest roof, which bqplot shows over the line itself only.
function hovering() {
  let shown = null;
  const tell = (line, what, { clientX, clientY }) => line.dispatchEvent(new MouseEvent(what, { bubbles: true, clientX, clientY }));
  return {
    mouseout: (event) => {
      if (event.isTrusted && event.target === shown) shown = null; // bqplot has hidden it
    },
    mousemove: (event) => {
      if (!event.isTrusted || event.defaultPrevented) return;
      const line = nearest(event);
      if (shown && shown !== line) tell(shown, 'mouseout', event);
      if (line && line !== event.target) {
        event.preventDefault(); // for the listeners of other views
        if (shown !== line) tell(line, 'mouseover', event);
        tell(line, 'mousemove', event);
      }
      shown = line;
    },
  };
}

// The models of a view: its children, and what acts on its figures.
function* controls(model) {
  yield model;
  for (const name of ['children', 'marks']) for (const one of model.get(name) ?? []) yield* controls(one);
  const acting = model.get('interaction');
  if (acting?.get) yield acting;
}

const WAITS = 20; // milliseconds
function inOrder(found, event) {
  const button = event.target.closest?.('.pk-view button');
  const kept = () => [...controls(found)].some((one) => one._pending_msgs || one._msg_buffer);
  if (!button || !found || !kept()) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  const later = () => (kept() ? setTimeout(later, WAITS) : button.isConnected && button.click());
  setTimeout(later, WAITS);
}

export default {
  initialize({ model }) {
    let found;
    const ordered = (event) => inOrder(found, event);
    const mark = ({ target }) => {
      const view = target.closest?.('.pk-view');
      if (!view) return;
      if (!found && model.get('view')) model.widget_manager.get_model(model.get('view')).then((one) => (found = one));
      target.setAttribute('data-lm-suppress-shortcuts', 'true');
      for (const place of view.querySelectorAll('.pk-ranked')) place.tabIndex = 0; // bqplot leaves it out of the tabs
    };
    const heard = { focusin: mark, click, keydown: key, ...hovering() };
    for (const [name, listener] of Object.entries(heard)) document.addEventListener(name, listener);
    document.addEventListener('click', ordered, true);
    document.addEventListener('click', clickNear, true);
    return () => {
      document.removeEventListener('click', ordered, true);
      document.removeEventListener('click', clickNear, true);
      for (const [name, listener] of Object.entries(heard)) document.removeEventListener(name, listener);
    };
  },
};
