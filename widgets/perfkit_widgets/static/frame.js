// Lets the views' controls have their keys: without a mark on the control itself, JupyterLab takes arrow keys on a focused
// list for moves between cells. The listener is the document's, so that it waits for no view to be drawn.
export default {
  initialize() {
    const mark = ({ target }) => {
      if (target.closest?.('.pk-view')) target.setAttribute('data-lm-suppress-shortcuts', 'true');
    };
    document.addEventListener('focusin', mark);
    return () => document.removeEventListener('focusin', mark);
  },
};
