// A model as Python packed it (perfkit/plots/live/packed.py): a head of JSON, then arrays.

export type Numbers = Float64Array | Float32Array | Int32Array;

export interface Head {
  view: string;
  key: string; // tells the views of a page apart, in its address
  title: string;
  kind: string;
  note: string; // what a picture says of data that was not measured
}

export interface Packed<H extends Head = Head> {
  head: H;
  arrays: Record<string, Numbers>;
}

const MAGIC = 'PKLIVE01';
const TYPES = { f8: Float64Array, f4: Float32Array, i4: Int32Array } as const;

export function unpack(view: DataView): Packed {
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength).slice(); // aligned at 0
  const magic = new TextDecoder().decode(bytes.subarray(0, 8));
  if (magic !== MAGIC) throw new Error(`expected a model for this view (${MAGIC}); found ${JSON.stringify(magic)}`);
  const length = new DataView(bytes.buffer).getUint32(8, true);
  const { arrays: described, ...head } = JSON.parse(new TextDecoder().decode(bytes.subarray(16, 16 + length)));
  const arrays: Record<string, Numbers> = {};
  for (const [name, [type, at, count]] of Object.entries(described as Record<string, [keyof typeof TYPES, number, number]>)) {
    arrays[name] = new TYPES[type](bytes.buffer, at, count);
  }
  return { head: head as Head, arrays };
}
