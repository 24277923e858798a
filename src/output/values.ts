import {
  DuckDBArrayValue,
  DuckDBListValue,
  DuckDBMapValue,
  DuckDBStructValue,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  type DuckDBType,
  DuckDBTypeId,
  DuckDBUnionValue,
  type DuckDBValue,
} from '@duckdb/node-api';

type JsonValue = null | boolean | number | string | JsonValue[] | { [name: string]: JsonValue };

/** The shortest text that gives the same 32-bit number. */
function shortestFloat(value: number): number {
  for (let digits = 6; digits < 9; digits += 1) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}

/** Integers that a reader of JSON can represent exactly are numbers, the others text; so are what JSON has no number for. */
function numberOf(value: number | bigint, type: DuckDBType): JsonValue {
  if (typeof value === 'bigint') {
    return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : String(value);
  }
  if (!Number.isFinite(value)) return String(value);
  return type.typeId === DuckDBTypeId.FLOAT ? shortestFloat(value) : value;
}

/** The machine's time zone must not move a time: as everywhere in cdsync it is UTC. */
function utc(time: DuckDBTimestampTZValue): string {
  const text = new DuckDBTimestampValue(time.micros).toString();
  return time.isFinite ? `${text}+00` : text;
}

/**
 * A value of DuckDB as JSON. Lists, structs and maps become arrays and objects, a union an object with its tag. What JSON has no form
 * for (decimals, times, intervals, UUIDs, bits, bytes) is text, as DuckDB writes it.
 */
export function jsonOf(value: DuckDBValue, type: DuckDBType): JsonValue {
  if (value === null) return null;
  if (typeof value === 'boolean' || typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'bigint') return numberOf(value, type);
  if (value instanceof DuckDBTimestampTZValue) return utc(value);
  if (value instanceof DuckDBListValue || value instanceof DuckDBArrayValue) {
    const { valueType } = type as { valueType: DuckDBType };
    return value.items.map((item) => jsonOf(item, valueType));
  }
  if (value instanceof DuckDBStructValue) {
    const { entryNames, entryTypes } = type as { entryNames: readonly string[]; entryTypes: readonly DuckDBType[] };
    const fields = entryNames.map((name, index) => {
      return [name, jsonOf(value.entries[name] ?? null, entryTypes[index] as DuckDBType)] as const;
    });
    return Object.fromEntries(fields);
  }
  if (value instanceof DuckDBMapValue) {
    const { keyType, valueType } = type as { keyType: DuckDBType; valueType: DuckDBType };
    const entries = value.entries.map(
      ({ key, value: each }) => [textOf(key, keyType), jsonOf(each, valueType)] as const,
    );
    return Object.fromEntries(entries);
  }
  if (value instanceof DuckDBUnionValue) return { [value.tag]: memberOf(value, type) };
  return String(value);
}

function memberOf({ tag, value }: DuckDBUnionValue, type: DuckDBType): JsonValue {
  const { memberTags, memberTypes } = type as { memberTags: readonly string[]; memberTypes: readonly DuckDBType[] };
  return jsonOf(value, memberTypes[memberTags.indexOf(tag)] as DuckDBType);
}

/** A value as text in a cell: nested ones as JSON, a union as the value that it holds, NULL as nothing. */
export function textOf(value: DuckDBValue, type: DuckDBType): string {
  const json = value instanceof DuckDBUnionValue ? memberOf(value, type) : jsonOf(value, type);
  if (json === null) return '';
  if (Object.is(json, -0)) return '-0.0';
  return typeof json === 'object' ? JSON.stringify(json) : String(json);
}
