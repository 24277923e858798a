/** A part of a partition spec, or of a sort order. */
export interface Transform {
  readonly column: string;
  /** As the Iceberg specification writes it: `identity`, `bucket[16]`, `day`. */
  readonly transform: string;
  /** The name of the partition field, as other engines name it. */
  readonly name: string;
}

const times = new Set(['year', 'month', 'day', 'hour']);

/**
 * Parses `country`, `bucket(id, 16)`, `truncate(email, 4)`, `day(updated_at)`; the number may come first, as in Spark. A column may be
 * in double quotes.
 * @returns undefined if it is none of these
 */
export function parsePartition(written: string): Transform | undefined {
  const [, called, inside] = /^([a-z]+)\((.*)\)$/s.exec(written.trim()) ?? [];
  if (called === undefined || inside === undefined) {
    const column = unquoted(written.trim());
    return column === '' || /[()]/.test(column) ? undefined : { column, transform: 'identity', name: column };
  }
  if (times.has(called)) {
    const column = unquoted(inside.trim());
    return column === '' ? undefined : { column, transform: called, name: `${column}_${called}` };
  }
  if (called !== 'bucket' && called !== 'truncate') return undefined;
  const match = /^(?<column>.+),\s*(?<width>[1-9]\d{0,8})$/s.exec(inside.trim());
  const reversed = /^(?<width>[1-9]\d{0,8})\s*,(?<column>.+)$/s.exec(inside.trim());
  const { column = '', width = '' } = (match ?? reversed)?.groups ?? {};
  const name = unquoted(column.trim());
  if (name === '') return undefined;
  return {
    column: name,
    transform: `${called}[${width}]`,
    name: `${name}_${called === 'truncate' ? 'trunc' : called}`,
  };
}

function unquoted(column: string): string {
  const inner = /^"((?:[^"]|"")*)"$/.exec(column)?.[1];
  return inner === undefined ? column : inner.replaceAll('""', '"');
}
