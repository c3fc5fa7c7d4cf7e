// Numbers for people; the same as perfkit.plots.style writes.

export function general(value: number, digits = 3): string {
  // Python's %g: scientific notation below 1e-4 and from 10^digits on, no zeros at the end.
  if (value === 0) return '0';
  const [mantissa, power] = value.toExponential(digits - 1).split('e') as [string, string];
  const exponent = Number(power);
  const trim = (text: string): string => (text.includes('.') ? text.replace(/\.?0+$/, '') : text);
  if (exponent < -4 || exponent >= digits) return `${trim(mantissa)}e${exponent < 0 ? '-' : '+'}${`${Math.abs(exponent)}`.padStart(2, '0')}`;
  return trim(value.toFixed(Math.max(0, digits - 1 - exponent)));
}

export function short(value: number, digits = 3): string {
  if (Number.isNaN(value)) return '–';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '-∞';
  const size = Math.abs(value);
  if (size >= 1e15) return general(value, digits);
  for (const [limit, divisor, unit] of [[1e12, 1e12, 'T'], [1e9, 1e9, 'G'], [1e6, 1e6, 'M'], [1e4, 1e3, 'k']] as const) {
    if (size >= limit) return general(value / divisor, digits) + unit;
  }
  return size >= 1000 ? Math.round(value).toLocaleString('en-US') : general(value, digits);
}

// So many digits after the point, without a sign before a zero.
export const fixed = (value: number, digits: number): string => value.toFixed(digits).replace(/^-(?=0(\.0*)?$)/, '');

export const percent = (share: number, digits = 0): string => `${fixed(100 * share, digits)} %`;

export const count = (value: number): string => Math.round(value).toLocaleString('en-US');

// A number of things, of which there may be one.
export const counted = (number: number, plural: string): string => `${count(number)} ${number === 1 ? plural.replace(/s$/, '') : plural}`;
