/**
 * The shape of a JSON value. The name of a field that may be missing or null ends with `?`. A field without a name here
 * is a violation, unless the fields are `open`.
 */
export type Shape =
  | 'text'
  | 'timestamp'
  | 'integer'
  | 'number'
  | 'boolean'
  | 'anything'
  /** Text as published. Other deployments have typed values too, so no decoder refuses them. */
  | 'attribute'
  | { readonly list: Shape }
  | { readonly map: Shape }
  | { readonly fields: Readonly<Record<string, Shape>>; readonly open?: boolean };

const scalars: Readonly<Record<Extract<Shape, string>, (value: unknown) => boolean>> = {
  text: (value) => typeof value === 'string',
  // ISO 8601, UTC, millisecond precision (specification, section 2).
  timestamp: (value) => typeof value === 'string' && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(value),
  integer: (value) => Number.isSafeInteger(value),
  number: (value) => typeof value === 'number',
  boolean: (value) => typeof value === 'boolean',
  anything: () => true,
  attribute: (value) => typeof value === 'string',
};

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Every place at which a value does not fit a shape. */
export function violations(shape: Shape, value: unknown, place = '$'): string[] {
  if (typeof shape === 'string') return scalars[shape](value) ? [] : [`${place} is no ${shape}`];
  if ('list' in shape) {
    if (!Array.isArray(value)) return [`${place} is no list`];
    return value.flatMap((item, index) => violations(shape.list, item, `${place}[${index}]`));
  }
  if (!isMap(value)) return [`${place} is no object`];
  if ('map' in shape) {
    return Object.entries(value).flatMap(([name, member]) => violations(shape.map, member, `${place}.${name}`));
  }
  const required = Object.entries(shape.fields).flatMap(([written, part]) => {
    const name = written.replace(/\?$/, '');
    const member = value[name];
    if (member === undefined || member === null) return written.endsWith('?') ? [] : [`${place}.${name} is missing`];
    return violations(part, member, `${place}.${name}`);
  });
  const known = new Set(Object.keys(shape.fields).map((written) => written.replace(/\?$/, '')));
  const unknown = shape.open ? [] : Object.keys(value).filter((name) => !known.has(name));
  return [...required, ...unknown.map((name) => `${place}.${name} is not published`)];
}

/** A copy of a value with one more field in each of its objects. */
export function enriched(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(enriched);
  if (!isMap(value)) return value;
  const members = Object.entries(value).map(([name, member]) => [name, enriched(member)]);
  return { ...Object.fromEntries(members), unpublished: 1 };
}

/**
 * Copies of a value that fits the shape, each with one scalar replaced by something else. A decoder that checks the whole
 * shape refuses them all. Lists and maps are spoilt in their first member.
 */
export function* spoilt(shape: Shape, value: unknown, place = '$'): Generator<readonly [place: string, copy: unknown]> {
  if (value === undefined || value === null || shape === 'anything' || shape === 'attribute') return;
  if (typeof shape === 'string') {
    yield [place, { not: 'a scalar' }];
  } else if ('list' in shape) {
    const [first, ...others] = value as unknown[];
    for (const [at, copy] of spoilt(shape.list, first, `${place}[0]`)) yield [at, [copy, ...others]];
  } else {
    const map = value as Record<string, unknown>;
    const parts =
      'map' in shape
        ? Object.keys(map)
            .slice(0, 1)
            .map((name) => [name, shape.map] as const)
        : Object.entries(shape.fields);
    for (const [written, part] of parts) {
      const name = written.replace(/\?$/, '');
      for (const [at, copy] of spoilt(part, map[name], `${place}.${name}`)) yield [at, { ...map, [name]: copy }];
    }
  }
}
