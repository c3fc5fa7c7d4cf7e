// Lets the views' controls have their keys: without a mark on the control itself, JupyterLab takes arrow keys on a focused
// list for moves between cells. And lets bars of a ranking be chosen by their whole rows, by their names, and by keys: a
// bar may have no width. The listeners are the document's, so that they wait for no view to be drawn; every view of a
// page brings its own, and the first that acts tells the others by preventDefault.
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

export default {
  initialize() {
    const mark = ({ target }) => {
      const view = target.closest?.('.pk-view');
      if (!view) return;
      target.setAttribute('data-lm-suppress-shortcuts', 'true');
      for (const place of view.querySelectorAll('.pk-ranked')) place.tabIndex = 0; // bqplot leaves it out of the tabs
    };
    const heard = { focusin: mark, click, keydown: key };
    for (const [name, listener] of Object.entries(heard)) document.addEventListener(name, listener);
    return () => {
      for (const [name, listener] of Object.entries(heard)) document.removeEventListener(name, listener);
    };
  },
};
