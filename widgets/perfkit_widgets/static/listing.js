// An annotated listing: rows of instructions, cells coloured by their share. Sorting, searching and choosing happen here;
// what is chosen reaches Python by the traits selected, sort, descending and search.
const HEAT = { time: '213, 94, 0', cause: '204, 121, 167', resource: '0, 114, 178' };

const percent = (share) => (share >= 0.0995 ? `${Math.round(100 * share)}` : share >= 0.0005 ? (100 * share).toFixed(1) : '');

const LONG = 60; // letters: names of C++ break, so that the columns beside them are seen

function cell(column, value) {
  const td = document.createElement('td');
  td.className = `pk-l-${column.kind}`;
  if (value === null || value === undefined) return td;
  if (column.kind in HEAT) {
    td.textContent = percent(value);
    td.style.background = `rgba(${HEAT[column.kind]}, ${(0.72 * Math.min(1, value / (column.most || 1))).toFixed(3)})`;
    td.title = `${column.title}: ${(100 * value).toFixed(2)} %`;
  } else {
    if (column.kind === 'code') td.title = value;
    td.textContent = column.kind !== 'number' ? value
      : Math.abs(value) < 1e15 ? value.toLocaleString('en', { maximumFractionDigits: 2 }) : value.toExponential(2);
    if (td.textContent.length > LONG) td.classList.add('pk-l-long');
  }
  return td;
}

function render({ model, el }) {
  el.classList.add('pk-view', 'pk-listing');
  const bar = document.createElement('div');
  bar.className = 'pk-l-bar';
  const search = document.createElement('input');
  search.type = 'search';
  search.placeholder = 'Search instructions and source';
  search.setAttribute('aria-label', 'Search instructions and source lines');
  const syntax = document.createElement('button');
  syntax.type = 'button';
  const count = document.createElement('span');
  count.className = 'pk-muted';
  bar.append(search, syntax, count);
  const scroll = document.createElement('div');
  scroll.className = 'pk-l-scroll';
  scroll.tabIndex = 0;
  scroll.setAttribute('role', 'group');
  scroll.setAttribute('aria-label', 'Instructions: arrow keys choose one');
  const table = document.createElement('table');
  scroll.append(table);
  el.append(bar, scroll);
  let shown = [], most;
  const lines = new Map();

  const value = (row, key) => model.get('rows')[row][model.get('columns').findIndex((c) => c.key === key)];
  const both = () => model.get('columns').some((c) => c.key === 'att'); // syntaxes
  const textKey = () => (model.get('syntax') === 'att' && both() ? 'att' : 'text');

  // The line's number and text, and the file's name where it is not the one of most rows; faded where the row above has
  // the same line.
  function sourceCell(i, again) {
    const td = document.createElement('td'), line = value(i, 'line');
    td.className = `pk-l-source${again ? ' pk-l-again' : ''}`;
    if (!line) return td;
    const name = value(i, 'file') ?? '', words = value(i, 'source_line') ?? '', at = document.createElement('span');
    at.className = 'pk-l-line';
    at.textContent = name !== most || !words ? `${name.split('/').pop()}:${line}` : line;
    td.append(at, ` ${words}`);
    td.title = `${name}:${line}${words ? `\n${words}` : ''}`;
    return td;
  }

  const place = (i) => `${value(i, 'file')}:${value(i, 'line')}`;

  function order() {
    const rows = model.get('rows'), words = model.get('search').toLowerCase(), key = model.get('sort');
    const text = model.get('columns').findIndex((c) => c.key === textKey());
    const pc = model.get('columns').findIndex((c) => c.key === 'pc');
    const source = model.get('columns').findIndex((c) => c.key === 'source_line');
    shown = rows.map((_, i) => i).filter((i) => `${rows[i][pc]} ${rows[i][text]} ${rows[i][source] ?? ''}`.toLowerCase().includes(words));
    if (key) {
      const sign = model.get('descending') ? -1 : 1;
      const compare = (a, b) => (typeof a === 'string' ? a.localeCompare(b) : (a ?? -1) - (b ?? -1));
      const file = (a, b) => (key === 'line' ? compare(value(a, 'file') ?? '', value(b, 'file') ?? '') : 0);
      shown.sort((a, b) => sign * (file(a, b) || compare(value(a, key), value(b, key))) || a - b);
    }
  }

  function head() {
    const tr = document.createElement('tr');
    for (const column of visible()) {
      const th = document.createElement('th');
      th.scope = 'col';
      const button = document.createElement('button');
      button.type = 'button';
      const mine = model.get('sort') === column.key;
      button.textContent = column.label + (mine ? (model.get('descending') ? ' ▼' : ' ▲') : '');
      button.title = `${column.title}; click to sort`;
      th.setAttribute('aria-sort', mine ? (model.get('descending') ? 'descending' : 'ascending') : 'none');
      button.addEventListener('click', () => sortBy(column));
      th.className = `pk-l-${column.kind}`;
      th.append(button);
      tr.append(th);
    }
    const thead = document.createElement('thead');
    thead.append(tr);
    return thead;
  }

  // By what it was sorted: descending first for numbers; a third click goes back to the program's order.
  function sortBy(column) {
    const text = ['text', 'code', 'source'].includes(column.kind);
    if (model.get('sort') !== column.key) model.set({ sort: column.key, descending: !text });
    else if (model.get('descending') !== text) model.set('descending', text);
    else model.set({ sort: '', descending: true });
    model.save_changes();
  }

  const visible = () =>
    model.get('columns').filter((c) => c.key !== (textKey() === 'att' ? 'text' : 'att') && c.key !== 'block' && c.kind !== 'hidden');

  function draw() {
    order();
    const columns = model.get('columns'), rows = model.get('rows');
    const wanted = visible().map((c) => [c, columns.indexOf(c)]);
    const body = document.createElement('tbody');
    lines.clear();
    const file = columns.findIndex((c) => c.key === 'file');
    const names = new Map();
    for (const row of rows) names.set(row[file], (names.get(row[file]) ?? 0) + 1);
    most = [...names].sort((a, b) => b[1] - a[1])[0]?.[0];
    let block = null, before = '';
    for (const i of shown) {
      const tr = document.createElement('tr');
      const mine = value(i, 'block');
      if (!model.get('sort') && block !== null && mine !== block) tr.className = 'pk-l-block';
      block = mine;
      for (const [column, at] of wanted)
        tr.append(column.kind === 'source' ? sourceCell(i, place(i) === before) : cell(column, rows[i][at]));
      before = place(i);
      tr.addEventListener('click', () => choose(i));
      lines.set(i, tr);
      body.append(tr);
    }
    const { scrollTop } = scroll;
    table.replaceChildren(head(), body);
    scroll.scrollTop = scrollTop;
    count.textContent = `${shown.length} of ${rows.length} instructions`;
    syntax.textContent = model.get('syntax') === 'att' ? 'AT&T syntax' : 'Intel syntax';
    syntax.hidden = !both();
    syntax.title = 'Change the syntax of the assembly';
    if (search.value !== model.get('search')) search.value = model.get('search');
    mark();
  }

  // Another order is read from its top; the program's, from where it opened.
  function reorder() {
    draw();
    if (model.get('sort') || model.get('search')) scroll.scrollTop = 0;
    else begin();
  }

  function mark() {
    const row = model.get('selected');
    const line = row >= 0 && value(row, 'line') ? place(row) : '';
    for (const [i, tr] of lines) {
      const mine = i === model.get('selected');
      tr.classList.toggle('pk-l-chosen', mine);
      tr.classList.toggle('pk-l-same', !!line && !mine && place(i) === line);
      tr.setAttribute('aria-selected', String(mine));
    }
  }

  function select() {
    mark();
    const tr = lines.get(model.get('selected'));
    if (tr) {
      const top = tr.offsetTop - 34, bottom = tr.offsetTop + tr.offsetHeight;
      if (top < scroll.scrollTop) scroll.scrollTop = top;
      else if (bottom > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = bottom - scroll.clientHeight;
    }
  }

  // The program's hottest instruction is what one came for, not its first.
  function hottest() {
    const keys = ['causality', 'time_share'].filter((k) => model.get('columns').some((c) => c.key === k));
    return keys.length && shown.length ? shown.reduce((a, b) => (value(b, keys[0]) > value(a, keys[0]) ? b : a)) : -1;
  }

  function begin() {
    const tr = lines.get(model.get('selected') < 0 ? hottest() : model.get('selected'));
    if (tr) scroll.scrollTop = tr.offsetTop - scroll.clientHeight / 3;
  }

  function choose(i) {
    model.set('selected', i);
    model.save_changes();
  }

  function keys(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 }[event.key];
    if (event.key === '/') search.focus();
    else if (event.key === 'Escape') choose(-1);
    else if (step && shown.length) {
      const at = shown.indexOf(model.get('selected'));
      choose(shown[Math.min(shown.length - 1, Math.max(0, at < 0 ? 0 : at + step))]);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  search.addEventListener('input', () => {
    model.set('search', search.value);
    model.save_changes();
  });
  search.addEventListener('keydown', (event) => event.stopPropagation());
  syntax.addEventListener('click', () => {
    model.set('syntax', model.get('syntax') === 'att' ? 'intel' : 'att');
    model.save_changes();
  });
  scroll.addEventListener('keydown', keys);
  const redrawn = 'change:rows change:columns change:syntax', reordered = 'change:search change:sort change:descending';
  model.on(redrawn, draw);
  model.on(reordered, reorder);
  model.on('change:selected', select);
  draw();
  requestAnimationFrame(() => {
    if (!model.get('sort')) begin();
  });
  return () => {
    model.off(redrawn, draw);
    model.off(reordered, reorder);
    model.off('change:selected', select);
  };
}

export default { render };
