// Shows saved Jupyter widgets in a page without a kernel or a network.
//
// The widget libraries come as the AMD modules that their Python packages install for the classic notebook
// (share/jupyter/nbextensions). This file is that notebook's stand-in: a module loader, and the few objects that the
// widget manager asks for. The page's bundle is this file, then each library between pk.begin(name) and pk.end().
'use strict';
(() => {
  // ------------------------------------------------------------- modules
  const modules = new Map();
  let current = null;

  const wanted = (name) => {
    if (name === 'module') return { id: 'pk', uri: document.location.href, config: () => ({}) };
    if (!modules.has(name)) throw new Error(`no such module in this page: ${name}`);
    return modules.get(name);
  };
  window.define = (...args) => {
    if (typeof args[0] === 'string') args.shift();
    const factory = args.pop();
    const names = args.pop() || [];
    modules.set(current, typeof factory === 'function' ? factory(...names.map(wanted)) : factory);
  };
  window.define.amd = {};
  window.requirejs = window.require = (names, done, failed) => {
    Promise.resolve()
      .then(() => names.map(wanted))
      .then((found) => done && done(...found))
      .catch((error) => (failed ? failed(error) : console.error(error)));
  };
  window.requirejs.config = () => {};
  window.pk = {
    begin: (name) => { current = name; },
    end: () => { current = null; },
    alias: (name, of) => { modules.set(name, wanted(of)); },
  };

  // ------------------------------------------------------------- what the widget manager asks of a notebook
  const nothing = () => {};
  const keyboard = { actions: { register: nothing }, register_events: nothing };
  const kernel = {
    is_connected: () => true,
    comm_info: (_target, answer) => answer({ content: { comms: {} } }),
    set_callbacks_for_msg: nothing,
  };
  // The manager counts this function's parameters; by failing it says that there is no kernel to ask for widgets.
  const newComm = (_target, _data, _callbacks, _metadata, _id, _buffers) => Promise.reject(new Error('no kernel'));
  kernel.comm_manager = { register_target: nothing, kernel, new_comm: newComm };
  const events = { on: nothing, trigger: nothing };
  const notebook = {
    metadata: {}, events, kernel, keyboard_manager: keyboard, container: { on: nothing }, get_cells: () => [],
  };
  window.Jupyter = {
    version: '6.5.0', notebook,
    notification_area: { widget: () => ({}) },
    menubar: { actions: { register: nothing, get: () => ({ handler: nothing }) } },
  };

  // Output widgets hold outputs of a cell; show the richest form of each.
  class OutputArea {
    constructor(options) {
      this.node = options.selector;
      this.element = { trigger: nothing };
      this.outputs = [];
    }
    clear_output() { this.node.replaceChildren(); this.outputs = []; }
    toJSON() { return this.outputs; }
    handle_output() {}
    handle_clear_output() {}
    fromJSON(outputs) {
      this.outputs = outputs;
      for (const output of outputs) this.node.append(shown(output));
    }
  }
  const shown = (output) => {
    const data = output.data || {};
    const text = (value) => (Array.isArray(value) ? value.join('') : value);
    const node = document.createElement('div');
    if (data['application/vnd.jupyter.widget-view+json']) attach(data['application/vnd.jupyter.widget-view+json'], node);
    else if (data['text/html']) node.innerHTML = text(data['text/html']);
    else if (data['image/png']) node.innerHTML = `<img src="data:image/png;base64,${text(data['image/png'])}">`;
    else {
      const pre = document.createElement('pre');
      pre.textContent = text(data['text/plain'] || output.text || (output.traceback || []).join('\n'));
      node.append(pre);
    }
    return node;
  };
  let appendMime = null;
  OutputArea.prototype.register_mime_type = (_type, append) => { appendMime = append; };
  modules.set('base/js/namespace', window.Jupyter);
  modules.set('base/js/events', events);
  modules.set('base/js/dialog', {});
  modules.set('notebook/js/outputarea', { OutputArea });
  modules.set('services/kernels/comm', { Comm: class { constructor() { throw new Error('no kernel'); } } });

  // ------------------------------------------------------------- showing the views of this page
  const attach = (view, parent) => {
    const place = document.createElement('div');
    const area = {
      create_output_subarea: () => [place], keyboard_manager: keyboard, handle_output: nothing, handle_clear_output: nothing,
    };
    appendMime.call(area, view, {}, { append: () => parent.append(place) });
  };

  const show = async () => {
    const stateNode = document.querySelector('script[type="application/vnd.jupyter.widget-state+json"]');
    const viewNodes = [...document.querySelectorAll('script[type="application/vnd.jupyter.widget-view+json"]')];
    if (!stateNode || !viewNodes.length) return;
    // The manager adds a menu beside the notebook's help menu; give it one that nobody sees.
    const menus = document.createElement('ul');
    menus.hidden = true;
    menus.innerHTML = '<li><a id="help_menu"></a></li>';
    document.body.append(menus);
    const main = modules.get('@jupyter-widgets/controls');
    await main.load_ipython_extension();
    const manager = kernel.widget_manager;
    models = await manager.set_state(JSON.parse(stateNode.textContent));
    for (const node of viewNodes) {
      const view = JSON.parse(node.textContent);
      if (!manager.has_model(view.model_id)) continue; // its static picture stays
      const fallback = node.parentElement.querySelector('.pk-fallback');
      attach(view, node.parentElement);
      if (fallback) fallback.remove();
    }
    document.body.dataset.widgets = 'shown';
    stillness();
  };

  // Controls whose values only a kernel answers are out of reach, also by keyboard; a line in each view says where they
  // live. Live views, and those that a browser draws (a listing, a timeline), work. A tree would show another node as
  // chosen than the one that stands below it and in its table.
  const STILL = 'select, input, textarea, button, .noUi-target';
  const quieten = () => {
    for (const control of document.querySelectorAll('.jp-OutputArea-output.pk-view :is(' + STILL + '):not([inert])')) {
      if (control.closest('.pkl, .pk-listing, .pk-timeline, .pk-tree')) continue;
      control.inert = true;
      const view = control.closest('.jp-OutputArea-output.pk-view');
      if (view.querySelector('.pk-still')) continue;
      const line = document.createElement('div');
      line.className = 'pk-still';
      line.textContent = 'Controls in grey, and choosing in the pictures, need a kernel: run the notebook in ./kit lab.';
      view.prepend(line);
    }
  };
  // A bar's whole name, or its place and which part of it this is, and its value: what a kernel would write into a tooltip.
  let models = [];
  const told = (datum) => {
    const of = models.find((one) => one.mark_data?.some?.(({ values }) => values?.includes(datum)));
    const names = of?.get('labels') ?? [], { x, y, index, subIndex } = datum;
    const name = of?.mark_data[0].values.length > 1 ? [x, names[subIndex]].filter(Boolean).join(', ') : (names[index] ?? x);
    return `${name}: ${Number(y.toPrecision(4))}`;
  };
  const entitle = () => {
    for (const bar of document.querySelectorAll('.pk-view .bqplot rect.bar')) {
      if (bar.__data__?.y == null) continue; // not drawn yet
      if (!bar.querySelector('title')) bar.append(document.createElementNS('http://www.w3.org/2000/svg', 'title'));
      const title = bar.querySelector('title'), text = told(bar.__data__);
      if (title.textContent !== text) title.textContent = text;
    }
  };
  // Views come one after the other, and draw themselves anew.
  const ACTS = ['click', 'keydown'], HOVERS = ['mouseover', 'mousemove'];
  const stillness = () => {
    for (const act of [...ACTS, ...HOVERS]) {
      const still = ACTS.includes(act) ? '.pk-tree, rect.bar' : 'rect.bar'; // a tooltip's words are the kernel's
      document.addEventListener(act, (event) => { if (event.target.closest?.(still)) event.stopPropagation(); }, true);
    }
    let soon = 0;
    new MutationObserver(() => {
      soon ||= requestAnimationFrame(() => { soon = 0; quieten(); entitle(); });
    }).observe(document.body, { childList: true, subtree: true });
    quieten();
    entitle();
  };
  const start = () => show().catch((error) => {
    document.body.dataset.widgets = 'failed';
    console.error('The saved widgets could not be shown; their static pictures stay.', error);
  });
  // The saved state stands at the end of the page, after this script.
  window.pk.start = () => {
    if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', start);
    else start();
  };
})();
