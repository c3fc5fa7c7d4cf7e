// The state of every view of a page in the page's address: #live.KEY=JSON&live.KEY2=JSON.
//
// A key is made of what a view shows, so that a link finds its view again. Views that show the same are numbered in the
// order in which they stand on the page. What else the fragment holds stays.
import type { State } from './view';

interface Entry {
  el: HTMLElement;
  key: string;
  name: string; // the key with its number
  read(state: State | null, wrong: string | null): void;
  state(): State;
}

const entries = new Set<Entry>();
const PREFIX = 'live.';

// The character set of a fragment allows these as they are; a link stays readable.
const encode = (state: State): string => encodeURIComponent(JSON.stringify(state)).replace(/%(22|3A|2C|5B|5D|7B|7D|20)/g, (code) => (code === '%20' ? '+' : decodeURIComponent(code)));

function parts(): [string, string][] {
  return location.hash.slice(1).split('&').filter(Boolean).map((part) => {
    const at = part.indexOf('=');
    return at < 0 ? [part, ''] : [part.slice(0, at), part.slice(at + 1)];
  });
}

function look(entry: Entry): void {
  const found = parts().find(([name]) => name === PREFIX + entry.name);
  if (!found) return entry.read(null, null);
  try {
    const state: unknown = JSON.parse(decodeURIComponent(found[1].replace(/\+/g, '%20')));
    if (typeof state !== 'object' || state === null || Array.isArray(state)) throw new Error('no object');
    entry.read(state as State, null);
  } catch {
    entry.read(null, 'The part of the address that is about this view cannot be read; it opens as it was made.');
  }
}

function number(): void {
  const seen = new Map<string, number>();
  const order = [...entries].sort((one, two) => (one.el.compareDocumentPosition(two.el) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1));
  for (const entry of order) {
    const before = seen.get(entry.key) ?? 0;
    seen.set(entry.key, before + 1);
    const name = before ? `${entry.key}.${before + 1}` : entry.key;
    if (name === entry.name) continue;
    entry.name = name;
    look(entry);
  }
}

let writing: ReturnType<typeof setTimeout> | undefined;

function write(): void {
  const mine = new Map([...entries].map((entry) => [PREFIX + entry.name, entry.state()]));
  const rest = parts().filter(([name]) => !mine.has(name)).map(([name, value]) => (value ? `${name}=${value}` : name));
  for (const [name, state] of mine) if (Object.keys(state).length) rest.push(`${name}=${encode(state)}`);
  const address = location.pathname + location.search + (rest.length ? `#${rest.join('&')}` : '');
  try {
    history.replaceState(history.state, '', address);
  } catch {
    // Pages inside of other pages (about:srcdoc) have no address of their own.
  }
}

const changedElsewhere = (): void => entries.forEach(look);

// Connects a view with the address; returns what to call when its state changed, and when it goes.
export function connect(el: HTMLElement, key: string, read: Entry['read'], state: () => State): { changed(): void; destroy(): void } {
  const entry: Entry = { el, key, name: '', read, state };
  if (!entries.size) addEventListener('hashchange', changedElsewhere);
  entries.add(entry);
  number();
  // Where a view is made before it is put into the page, its place is known only later.
  const later = requestAnimationFrame(number);
  return {
    changed: () => {
      clearTimeout(writing); // browsers allow some hundred changes of an address a minute
      writing = setTimeout(write, 200);
    },
    destroy: () => {
      cancelAnimationFrame(later);
      entries.delete(entry);
      if (!entries.size) removeEventListener('hashchange', changedElsewhere);
    },
  };
}
