// Elements from text and attributes. Nothing here reads HTML: a name is text, whatever it holds.

type Content = Node | string | number | null | undefined;
export type Attributes = Record<string, string | number | boolean | null | undefined>;

function filled<E extends Element>(element: E, attributes: Attributes, content: Content[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, `${value}`);
  }
  for (const each of content) if (each !== null && each !== undefined) element.append(each instanceof Node ? each : `${each}`);
  return element;
}

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...content: Content[]): HTMLElementTagNameMap[K] {
  return filled(document.createElement(tag), attributes, content);
}

export function s<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...content: Content[]): SVGElementTagNameMap[K] {
  return filled(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, content);
}

// A name that may go on in another line after a dot, an underscore and the like, as perfkit.plots.style.breakable has it.
export function breakable(text: string): Node[] {
  return text.split(/(?<=[._:/,-])(?=[^\W\d])/).flatMap((part, i) => (i ? [h('wbr'), new Text(part)] : [new Text(part)]));
}

let last = 0;
export const unique = (stem: string): string => `pkl-${stem}-${++last}`;

// Several values of which one is chosen, as buttons in a row; arrow keys move between them.
export interface Choice<T extends string> {
  element: HTMLElement;
  set(value: T): void;
}

export function choice<T extends string>(label: string, values: readonly (readonly [T, string])[], chosen: (value: T) => void): Choice<T> {
  const buttons = values.map(([value, text]) => h('button', { type: 'button', role: 'radio', 'data-value': value }, text));
  const element = h('div', { class: 'pkl-choice', role: 'radiogroup', 'aria-label': label }, ...buttons);
  const set = (value: T): void => {
    buttons.forEach((button, i) => {
      const on = values[i]![0] === value;
      button.setAttribute('aria-checked', `${on}`);
      button.tabIndex = on ? 0 : -1;
    });
  };
  buttons.forEach((button, i) => {
    button.addEventListener('click', () => chosen(values[i]![0]));
    button.addEventListener('keydown', (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      const next = (i + by + values.length) % values.length;
      chosen(values[next]![0]);
      buttons[next]!.focus();
    });
  });
  return { element, set };
}

// A list of which one entry is chosen. Arrow keys, Home and End move; the list has one place in the order of tabs.
export function listbox(label: string, chosen: (index: number) => void): { element: HTMLElement; fill(rows: HTMLElement[], at: number): void } {
  const element = h('div', { class: 'pkl-list', role: 'listbox', tabindex: 0, 'aria-label': label });
  let count = 0, now = -1;
  element.addEventListener('click', (event) => {
    const row = (event.target as Element).closest('[role=option]');
    if (row) chosen([...element.children].indexOf(row));
  });
  element.addEventListener('keydown', (event) => {
    const to = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: count - 1 }[event.key];
    if (to === undefined || !count) return;
    event.preventDefault();
    chosen(Math.min(count - 1, Math.max(0, to)));
  });
  const fill = (rows: HTMLElement[], at: number): void => {
    count = rows.length;
    now = at;
    rows.forEach((row, i) => {
      row.id ||= unique('row');
      row.setAttribute('role', 'option');
      row.setAttribute('aria-selected', `${i === at}`);
    });
    element.replaceChildren(...rows);
    if (at >= 0 && rows[at]) element.setAttribute('aria-activedescendant', rows[at]!.id);
    else element.removeAttribute('aria-activedescendant');
  };
  return { element, fill };
}

export function key(text: string, colour: string, shape: 'bar' | 'dot' | 'line' | 'dash'): HTMLElement {
  return h('span', { class: 'pkl-key' }, h('i', { class: shape, style: `--c:${colour}` }), text);
}

export function table(caption: string, head: string[], rows: (string | number)[][]): HTMLTableElement {
  return h(
    'table', { class: 'pkl-table' }, h('caption', {}, caption),
    h('thead', {}, h('tr', {}, ...head.map((cell) => h('th', { scope: 'col' }, cell)))),
    h('tbody', {}, ...rows.map((row) => h('tr', {}, ...row.map((cell, i) => (i ? h('td', {}, ...breakable(`${cell}`)) : h('th', { scope: 'row' }, cell)))))),
  );
}
