// The views that compute in the browser: as widgets (anywidget calls `render`), and in a page of their own (`mount`).
import { connect } from './address';
import { cpiView } from './cpi_view';
import { unpack, type Packed } from './packed';
import { spireView } from './spire_view';
import { roofsView } from './roofs_view';
import type { Make, State, View } from './view';
import { whatIfView } from './whatif_view';

export { NoStack, aggregate, fit, select, unusable } from './cpi';
export { place } from './grid';
export { roofAt } from './roofs_view';
export { eigen, leastSquares, nnls } from './solve';
export { SpireModel } from './spire';
export { unpack } from './packed';
export { fixed, general, percent, short } from './text';

const MAKERS: Record<string, Make> = { spire: spireView as Make, cpi: cpiView as Make, whatif: whatIfView as Make, roofs: roofsView as Make };

interface Live extends View {
  packed: Packed;
}

// JupyterLab takes the arrow keys of a focused control for moves between cells; a mark on anything around it is not asked.
const keepKeys = ({ target }: FocusEvent): void => (target as Element).setAttribute('data-lm-suppress-shortcuts', 'true');

// Shows a packed model in an element; `told` is called with each new state. Returns the view.
export function mount(el: HTMLElement, bytes: DataView, first: State = {}, told: (state: State) => void = () => {}): Live {
  const packed = unpack(bytes);
  const make = MAKERS[packed.head.view];
  if (!make) throw new Error(`no view ${packed.head.view}`);
  el.classList.add('pkl');
  el.replaceChildren();
  el.addEventListener('focusin', keepKeys);
  let connection: ReturnType<typeof connect> | null = null;
  const changed = (): void => {
    connection?.changed();
    told(view.state());
  };
  const view = make(el, packed, changed);
  if (Object.keys(first).length) view.take(first);
  const complaint = el.querySelector<HTMLElement>('[role=status]')!;
  const complain = (lines: string[]): void => {
    complaint.hidden = !lines.length;
    complaint.textContent = lines.join(' ');
  };
  let linked = false;
  connection = connect(el, packed.head.key, (state, wrong) => {
    if (wrong) complain([wrong]);
    else if (state) {
      linked = true;
      complain(view.take(state));
      told(view.state());
    } else if (linked) {
      linked = false;
      complain(view.take(first));
    }
  }, () => view.state());
  const live: Live = {
    packed,
    take: (state) => view.take(state),
    state: () => view.state(),
    result: () => view.result(),
    destroy: () => {
      el.removeEventListener('focusin', keepKeys);
      connection?.destroy();
      view.destroy();
    },
  };
  Object.assign(el, { pkLive: live });
  return live;
}

interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(name: string, callback: () => void): void;
  off(name: string, callback: () => void): void;
}

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const root = document.createElement('section');
  el.append(root);
  let live: Live | null = null, saving: ReturnType<typeof setTimeout> | undefined, own = '';
  const told = (state: State): void => {
    clearTimeout(saving);
    saving = setTimeout(() => {
      own = JSON.stringify(state);
      if (own === JSON.stringify(model.get('state'))) return;
      model.set('state', state);
      model.save_changes();
    }, 100);
  };
  const show = (): void => {
    live?.destroy();
    live = mount(root, model.get('model') as DataView, (model.get('state') ?? {}) as State, told);
  };
  const moved = (): void => {
    const state = (model.get('state') ?? {}) as State;
    if (JSON.stringify(state) !== own) live?.take(state);
  };
  show();
  model.on('change:model', show);
  model.on('change:state', moved);
  return () => {
    clearTimeout(saving);
    model.off('change:model', show);
    model.off('change:state', moved);
    live?.destroy();
  };
}

// A page of its own (LiveView.save_page) holds each model as base64 text, and the places that show them.
function open(place: HTMLElement): void {
  try {
    const text = document.getElementById(place.dataset.model!)!.textContent!;
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    mount(place, new DataView(bytes.buffer), JSON.parse(place.dataset.state!));
  } catch (error) {
    place.textContent = `This view could not be shown: ${(error as Error).message}`;
    throw error;
  }
}
if (typeof document !== 'undefined') document.querySelectorAll<HTMLElement>('.pkl-page [data-model]').forEach(open);

export default { render };
