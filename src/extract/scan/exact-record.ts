import type { Column, ColumnOrigin, ColumnSet } from '../../columns/columns.js';
import type { ListSource } from '../../sources/source.js';
import {
  canonicalJson,
  type ExactValue,
  hasLoneSurrogate,
  NumberText,
  observe,
  parseExact,
  withoutLoneSurrogates,
  writeExact,
} from './exact-json.js';
import { strictText } from './json-bytes.js';
import type { Reject, ScanOptions } from './scanned-page.js';
import { staysJson } from './text-column.js';

/** The result of the slow path for one record. */
interface ExactRecord {
  readonly reject: Omit<Reject, 'raw' | 'position'> | undefined;
  /** The record as JSON text for DuckDB: an object with a member for each column. */
  readonly text: string;
  readonly keys: readonly string[];
  readonly replaced: boolean;
  /** The attribute whose value does not match the filter; null if all match. */
  readonly mismatch: string | null;
  /** The attributes of the filter that it has a value in. */
  readonly evaluated: readonly string[];
}

/** Whether a value matches a filter. A missing value and an object cannot be compared, so they match. */
export function matchesFilter(value: ExactValue | undefined, wanted: string): boolean {
  if (value === undefined || value === null || value instanceof Map) return true;
  if (Array.isArray(value)) return value.length === 0 || value.some((item) => matchesFilter(item, wanted));
  if (value instanceof NumberText) return value.text === wanted || Number(value.text) === Number(wanted);
  return String(value) === wanted;
}

/**
 * JSON text of a value for its column in the staging file. For a JSON column this is a string with the canonical text. But if such a
 * column may still get a type, it is the canonical text itself, which DuckDB can read both as that type and as the same text.
 * @param isFree the result of {@link staysJson} for the column
 */
export function stagedValue(value: ExactValue, { type, declared }: Column, isFree: boolean): string {
  if (value === null) return 'null';
  if (type !== 'JSON' && (declared === undefined || typeof value === 'string')) return writeExact(value);
  const text = canonicalJson(value);
  return declared === undefined && !isFree ? text : JSON.stringify(text);
}

function rejected(key: string | null, reason: string, column: string | null = null): ExactRecord {
  return { reject: { key, reason, column }, text: '', keys: [], replaced: false, mismatch: null, evaluated: [] };
}

function stagedMembers(
  columns: ColumnSet,
  place: ColumnOrigin,
  members: ReadonlyMap<string, ExactValue>,
  except: string | null,
): string[] {
  const texts: string[] = [];
  for (const [name, value] of members) {
    if (name === except) continue;
    const column = columns.columnFor(place, name);
    // A column that stays JSON needs no look at its values, which may have unlimited names.
    let isFree = staysJson(column);
    if (!isFree && observe(value, column.shape)) {
      columns.reshaped(column);
      isFree = staysJson(column);
    }
    if (!isFree && typeof value === 'string') columns.addText(column, value);
    texts.push(`${JSON.stringify(column.name)}:${stagedValue(value, column, isFree)}`);
  }
  return texts;
}

function attributesOf(value: ExactValue | undefined): ReadonlyMap<string, ExactValue> | undefined {
  if (value === undefined || value === null) return new Map();
  if (value instanceof Map) return value;
  if (!Array.isArray(value) || value.length > 1) return undefined;
  const [only] = value;
  if (only === undefined) return new Map();
  return only instanceof Map ? only : undefined;
}

/**
 * The slow, exact path for one record: parses it without loss, shows its values to the columns, and writes it again. Of repeated
 * names the last value counts. Lone surrogates become U+FFFD, except in a key: then the record is rejected.
 * @param source the record's text as `strictText` gives it, known to be valid JSON no deeper than `maxDepth`
 */
export function exactRecord(source: string, columns: ColumnSet, { container, key, filter }: ScanOptions): ExactRecord {
  const parsed = parseExact(source);
  const replaced = hasLoneSurrogate(parsed);
  const record = replaced ? withoutLoneSurrogates(parsed) : parsed;
  if (!(record instanceof Map)) return rejected(null, 'not_an_object');
  const keys: string[] = [];
  for (const field of key) {
    const value = (parsed as typeof record).get(field);
    if (value === undefined || value === null || value === '') return rejected(null, 'key_missing', field);
    if (typeof value !== 'string') return rejected(null, 'key_not_text', field);
    // With U+FFFD in place of invalid Unicode, two keys could become one.
    if (!value.isWellFormed()) return rejected(null, 'key_not_unicode', field);
    keys.push(value);
  }
  const attributes = container === null ? new Map() : attributesOf(record.get(container));
  if (attributes === undefined) return rejected(keys.join(' '), 'attributes_not_an_object', container);
  const texts = stagedMembers(columns, 'envelope', record, container);
  // In the staging file the attributes are beside the fields of the record; see RecordScanner.
  texts.push(...stagedMembers(columns, 'attribute', attributes, null));
  const values = container === null ? record : attributes;
  const mismatch = [...filter].find(([attribute, wanted]) => !matchesFilter(values.get(attribute), wanted));
  return {
    reject: undefined,
    text: `{${texts.join(',')}}`,
    keys,
    replaced,
    mismatch: mismatch?.[0] ?? null,
    evaluated: [...filter.keys()].filter((attribute) => (values.get(attribute) ?? null) !== null),
  };
}

function parsed(body: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(strictText(body));
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a body is the requested record. */
export function isRecord(body: Buffer, { key }: ListSource, wanted: string): boolean {
  const record = parsed(body);
  return record !== undefined && key.length === 1 && record[key[0] as string] === wanted;
}

/** Whether a record has a value in each of the attributes. Without one, no filter on it can match. */
export function hasAttributes(body: Buffer, { container }: ListSource, attributes: Iterable<string>): boolean {
  const record = parsed(body) ?? {};
  const held = container === null ? record : record[container];
  const values = new Map(Object.entries((Array.isArray(held) ? held[0] : held) ?? {}));
  return [...attributes].every((attribute) => values.get(attribute) !== undefined && values.get(attribute) !== null);
}
