// Results on a grid of settings: each was worked out in Python, and sliders go from one to the next. Nothing is
// interpolated.
import { breakable, h } from './dom';

export interface Axis {
  name: string;
  values: number[]; // rising
  start: number; // the place of the value the view opens with
  about: string; // what is written beside the slider
}

// The place in the grid of the chosen values; the last axis runs fastest.
export function place(axes: Axis[], at: number[]): number {
  return axes.reduce((before, axis, i) => before * axis.values.length + at[i]!, 0);
}

export class Sliders {
  readonly element: HTMLElement;
  at: number[];
  private readonly inputs: HTMLInputElement[];
  private readonly outputs: HTMLElement[];

  constructor(private readonly axes: Axis[], private readonly write: (value: number) => string, moved: () => void) {
    this.at = axes.map((axis) => axis.start);
    this.inputs = axes.map((axis) => h('input', { type: 'range', min: 0, max: axis.values.length - 1, step: 1, 'aria-label': `${axis.name} (${axis.about})` }));
    this.outputs = axes.map(() => h('span', { class: 'pkl-now' }));
    const reset = h('button', { type: 'button' }, 'Reset to baseline');
    reset.addEventListener('click', () => {
      this.at = axes.map((axis) => axis.start);
      moved();
    });
    this.inputs.forEach((input, i) => input.addEventListener('input', () => {
      this.at[i] = Number(input.value);
      moved();
    }));
    this.element = h('div', { class: 'pkl-sliders' }, ...axes.map((axis, i) => h('label', {}, h('span', { class: 'pkl-label', title: axis.name }, ...breakable(axis.name)), this.inputs[i]!, this.outputs[i]!, h('span', { class: 'pkl-muted' }, axis.about))), reset);
  }

  get place(): number {
    return place(this.axes, this.at);
  }

  get start(): number {
    return place(this.axes, this.axes.map((axis) => axis.start));
  }

  show(): void {
    this.axes.forEach((axis, i) => {
      const text = this.write(axis.values[this.at[i]!]!);
      this.inputs[i]!.value = `${this.at[i]}`;
      this.inputs[i]!.setAttribute('aria-valuetext', text);
      this.outputs[i]!.textContent = text;
    });
  }

  // What differs from the start, by name; and back, with what of it means nothing here.
  state(): Record<string, number> {
    return Object.fromEntries(this.axes.flatMap((axis, i) => (this.at[i] === axis.start ? [] : [[axis.name, axis.values[this.at[i]!]!]])));
  }

  take(found: unknown): string[] {
    this.at = this.axes.map((axis) => axis.start);
    if (found === undefined) return [];
    if (typeof found !== 'object' || found === null || Array.isArray(found)) return ['The link names values that cannot be read; the view opens at the baseline.'];
    return Object.entries(found).flatMap(([name, value]) => {
      const i = this.axes.findIndex((axis) => axis.name === name), j = i < 0 ? -1 : this.axes[i]!.values.indexOf(value as number);
      if (j >= 0) this.at[i] = j;
      return j >= 0 ? [] : [`The link sets ${name} to ${JSON.stringify(value)}, which is not on the grid of this view.`];
    });
  }
}
