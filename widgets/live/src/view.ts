// What every view is: it shows a model in an element, has a state that can be written down, and reads it again.
import { h } from './dom';
import type { Head, Packed } from './packed';

// What differs from the view as it opens; plain JSON.
export type State = Record<string, unknown>;

export interface View {
  // Takes a state (of a link, or of Python) and returns what of it means nothing here.
  take(state: State): string[];
  state(): State;
  // What is shown, as numbers: tests compare it with Python's.
  result(): unknown;
  destroy(): void;
}

export type Make = (root: HTMLElement, packed: Packed, changed: () => void) => View;

// The head of a view: its title, what the data is, a sentence that says what is seen, and a place for complaints.
export class Frame {
  readonly words = h('p', { class: 'pkl-words', 'aria-live': 'polite' });
  readonly complaint = h('p', { class: 'pkl-note', role: 'status', hidden: true });
  readonly body = h('div', { class: 'pkl-body' });

  constructor(root: HTMLElement, head: Head) {
    root.setAttribute('role', 'group');
    root.setAttribute('aria-label', head.title);
    root.append(
      h('h3', { class: 'pkl-title' }, head.title),
      ...(head.note ? [h('p', { class: 'pkl-note pkl-kind' }, head.note)] : []),
      this.words, this.complaint, this.body,
    );
  }

  complain(lines: string[]): void {
    this.complaint.hidden = !lines.length;
    this.complaint.textContent = lines.join(' ');
  }
}

// Reads one entry of a state; complains where it is none of what is allowed.
export class Reader {
  readonly complaints: string[] = [];

  constructor(private readonly state: State) {}

  one<T extends string>(name: string, allowed: readonly T[], otherwise: T): T {
    const found = this.state[name];
    if (found === undefined) return otherwise;
    if (allowed.includes(found as T)) return found as T;
    this.complaints.push(`The link names ${name} ${JSON.stringify(found)}, which is not here; showing ${otherwise}.`);
    return otherwise;
  }

  stretch(name: string, n: number): [number, number] {
    const found = this.state[name];
    if (found === undefined) return [0, n - 1];
    if (Array.isArray(found) && found.length === 2) {
      const [a, b] = found as number[];
      if (Number.isInteger(a) && Number.isInteger(b) && 0 <= a! && a! <= b! && b! < n) return [a!, b!];
    }
    this.complaints.push(`The link names the intervals ${JSON.stringify(found)}; there are 0 to ${n - 1}. Showing all.`);
    return [0, n - 1];
  }

  some(name: string, allowed: readonly string[], otherwise: string[]): string[] {
    const found = this.state[name];
    if (found === undefined) return otherwise;
    if (Array.isArray(found) && found.every((each) => allowed.includes(each as string))) return allowed.filter((each) => found.includes(each));
    this.complaints.push(`The link names ${name} that are not here: ${JSON.stringify(found)}; showing those the view opens with.`);
    return otherwise;
  }

  unknown(known: string[]): string[] {
    for (const name of Object.keys(this.state)) if (!known.includes(name)) this.complaints.push(`The link names ${JSON.stringify(name)}, which this view does not have.`);
    return this.complaints;
  }
}
