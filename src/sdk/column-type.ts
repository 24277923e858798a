/** The type of a stream's column. Any value may be missing, which is NULL. */
export type ColumnType =
  | { readonly kind: 'boolean' }
  /** An integer of 64 bits, with sign. */
  | { readonly kind: 'int64' }
  /** An integer of at most 38 digits, with sign. */
  | { readonly kind: 'int128' }
  | { readonly kind: 'double' }
  | { readonly kind: 'decimal'; readonly precision: number; readonly scale: number }
  | { readonly kind: 'text' }
  /** Any JSON value, as its canonical text. */
  | { readonly kind: 'json' }
  /** A moment, to the microsecond, UTC. */
  | { readonly kind: 'timestamp' }
  | { readonly kind: 'date' }
  | { readonly kind: 'list'; readonly element: ColumnType }
  | { readonly kind: 'struct'; readonly fields: readonly StructField[] };

export interface StructField {
  readonly name: string;
  readonly type: ColumnType;
}

/** A column of a stream, under the name it has in the destination. */
export interface StreamColumn {
  readonly name: string;
  readonly type: ColumnType;
  /** The same type as DuckDB writes it. */
  readonly duckdbType: string;
}

const plain: Readonly<Record<string, ColumnType>> = {
  BOOLEAN: { kind: 'boolean' },
  TINYINT: { kind: 'int64' },
  SMALLINT: { kind: 'int64' },
  INTEGER: { kind: 'int64' },
  BIGINT: { kind: 'int64' },
  UTINYINT: { kind: 'int64' },
  USMALLINT: { kind: 'int64' },
  UINTEGER: { kind: 'int64' },
  UBIGINT: { kind: 'int128' },
  HUGEINT: { kind: 'int128' },
  FLOAT: { kind: 'double' },
  DOUBLE: { kind: 'double' },
  VARCHAR: { kind: 'text' },
  JSON: { kind: 'json' },
  DATE: { kind: 'date' },
  TIMESTAMP: { kind: 'timestamp' },
  'TIMESTAMP WITH TIME ZONE': { kind: 'timestamp' },
};

/** Splits at commas outside of quotes and brackets. */
function parts(text: string): string[] {
  const found: string[] = [];
  let [depth, quoted, from] = [0, false, 0];
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index];
    if (character === '"') quoted = !quoted;
    else if (quoted) continue;
    else if (character === '(') depth += 1;
    else if (character === ')') depth -= 1;
    else if (character === ',' && depth === 0) {
      found.push(text.slice(from, index).trim());
      from = index + 1;
    }
  }
  return [...found, text.slice(from).trim()];
}

function structField(text: string): StructField {
  const match = /^(?:"((?:[^"]|"")*)"|(\S+))\s+(.+)$/s.exec(text);
  if (match === null) return { name: text, type: { kind: 'text' } };
  const [, quoted, bare, type = ''] = match;
  return { name: bare ?? (quoted ?? '').replaceAll('""', '"'), type: parseColumnType(type) };
}

/** Parses a type as DuckDB writes it; types that streams do not have become text. */
export function parseColumnType(duckdbType: string): ColumnType {
  const text = duckdbType.trim();
  if (text.endsWith('[]')) return { kind: 'list', element: parseColumnType(text.slice(0, -2)) };
  const struct = /^STRUCT\((.*)\)$/s.exec(text);
  if (struct !== null) return { kind: 'struct', fields: parts(struct[1] as string).map(structField) };
  const decimal = /^DECIMAL\((\d+),\s*(\d+)\)$/.exec(text);
  if (decimal === null) return plain[text] ?? { kind: 'text' };
  const [precision, scale] = [Number(decimal[1]), Number(decimal[2])];
  return scale === 0 && precision === 38 ? { kind: 'int128' } : { kind: 'decimal', precision, scale };
}

/** Whether values of the type have parts. */
export function isNested({ kind }: ColumnType): boolean {
  return kind === 'list' || kind === 'struct';
}
