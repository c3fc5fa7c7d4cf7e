// Lets a view's controls have their keys: without a mark on the control itself, JupyterLab takes arrow keys on a focused
// list for moves between cells.
const mark = (event) => event.target.setAttribute('data-lm-suppress-shortcuts', 'true');

export default {
  render({ el }) {
    let view = null;
    let stopped = false;
    const listen = () => {
      view = el.closest('.pk-view');
      if (view) view.addEventListener('focusin', mark);
      else if (!stopped) requestAnimationFrame(listen); // not in the page yet
    };
    listen();
    return () => {
      stopped = true;
      if (view) view.removeEventListener('focusin', mark);
    };
  },
};
