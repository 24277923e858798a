import { join } from 'node:path';
import { emptyShape } from '../../columns/column-shape.js';
import { ColumnSet } from '../../columns/columns.js';
import { maskedValueSql } from '../../columns/masked-value.js';
import { isRowKey, rowKey } from '../../columns/row-hash.js';
import { statOrUndefined } from '../../core/durable.js';
import { CdsyncError } from '../../core/errors.js';
import { fileText, quoteIdentifier, sqlText, sqlTexts } from '../../core/sql.js';
import { hasValue, isNested } from '../../snapshot/forget.js';
import type { SnapshotStore } from '../../snapshot/snapshot-store.js';
import { beforeTable, changesTable, storeTable } from '../../snapshot/store-tables.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import type { Database } from '../../storage/duckdb.js';
import { readHeld } from '../../storage/held.js';
import type { JobLayout } from '../../storage/layout.js';
import { rejectsIn } from '../../storage/part.js';
import { runFolders } from '../../storage/storage.js';
import { partsOfKey, partsOfKeys } from '../run/forgotten-keys.js';
import { filesBelow } from './find-value-files.js';

/** How many rows with one of the keys each place of a stream has. */
export interface PlaceCounts {
  rows: number;
  changes: number;
  history: number;
  rejects: number;
  parquet: number;
  /** In the record cache. */
  cache: number;
  /** In runs that a guard holds. */
  held: number;
  /** In readings that were cut short. */
  unfinished: number;
}

/** The rows and texts that a stream has of some people. */
export interface FoundPeople {
  readonly counts: PlaceCounts;
  /** The keys of their rows, and which of the requested keys each is. */
  readonly keys: ReadonlyMap<string, ReadonlySet<number>>;
  /** Whether the key is hashed with a salt that the configuration no longer has: only the hash itself finds a row then. */
  readonly lacksSalt: boolean;
}

/** A key of several columns as rows have it, if the text is a JSON list. */
function listed(text: string): (string | null)[] | undefined {
  if (!text.startsWith('[')) return undefined;
  try {
    const parsed: unknown = JSON.parse(text);
    return Array.isArray(parsed) ? parsed.map((part) => (part === null ? null : String(part))) : undefined;
  } catch {
    return undefined;
  }
}

/** The texts by which a stream's rows may have the requested keys, and which key each is. */
interface KeyForms {
  readonly forms: ReadonlyMap<string, ReadonlySet<number>>;
  readonly lacksSalt: boolean;
}

/** The keys as they were given and, if a column of the key is hashed, their hashes. */
export async function keyForms(
  { session }: SnapshotStore,
  database: Database,
  state: StreamState,
  requested: readonly string[],
): Promise<KeyForms> {
  const forms = new Map<string, Set<number>>();
  const add = (form: string, index: number) => forms.set(form, (forms.get(form) ?? new Set()).add(index));
  const lists = requested.map((text) => (state.key.length > 1 ? listed(text) : undefined));
  for (const [index, text] of requested.entries()) {
    add(text, index);
    const list = lists[index];
    if (list !== undefined) add(JSON.stringify(list), index);
  }
  const columns = ColumnSet.restore(state.columns).list;
  const rules = state.key.map((name) => columns.find((column) => column.name === name)?.rule?.hash);
  const lacksSalt = rules.some((hash) => hash !== undefined && !database.hasSalt(hash.salt));
  const hashed = lists.map((list) => list?.slice());
  for (const [place, hash] of rules.entries()) {
    if (hash === undefined || !database.hasSalt(hash.salt)) continue;
    const texts = [...new Set([...requested, ...lists.flatMap((list) => list?.[place] ?? [])])];
    const sql = maskedValueSql('text', { type: 'VARCHAR', shape: emptyShape() }, { hash });
    const rows = await session.rows(`SELECT text, ${sql} AS hashed FROM (SELECT unnest(${sqlTexts(texts)}) AS text)`);
    const hashes = new Map(rows.map((row) => [String(row.text), String(row.hashed)]));
    for (const [index, text] of requested.entries()) {
      add(hashes.get(text) ?? text, index);
      const part = lists[index]?.[place];
      if (part != null) (hashed[index] as (string | null)[])[place] = hashes.get(part) ?? part;
    }
  }
  for (const [index, list] of hashed.entries()) if (list !== undefined) add(JSON.stringify(list), index);
  return { forms, lacksSalt };
}

/**
 * Those of the texts that a row may have as its key.
 * @throws {CdsyncError} `key_not_found` if the stream was named, and a key that no row has is of another number of columns
 */
export function rowKeys(
  forms: KeyForms['forms'],
  found: Pick<FoundPeople, 'keys'>,
  { stream, key }: StreamState,
  request: { readonly stream: string | undefined; readonly keys: readonly string[] },
): string[] {
  const texts = [...forms.keys()].filter((text) => isRowKey(text, key));
  const asked = new Set(
    [...texts.map((text) => forms.get(text)), ...found.keys.values()].flatMap((of) => [...(of ?? [])]),
  );
  if (request.stream !== stream || asked.size === request.keys.length) return texts;
  const columns = key.map((name) => `"${name}"`).join(',');
  throw new CdsyncError(`a key of stream "${stream}" has ${key.length} columns; nothing was deleted`, {
    code: 'key_not_found',
    hint: `write it as a JSON list of their values: '[${columns}]'`,
  });
}

type Source = readonly [place: keyof PlaceCounts, sql: string];

async function sourcesOf(layout: JobLayout, state: StreamState): Promise<Source[]> {
  const { stream, key } = state;
  const rowKeyColumn = `${rowKey(key)} AS key`;
  const sources: Source[] = [
    ['rows', `SELECT ${rowKeyColumn} FROM ${storeTable(stream)}`],
    ['changes', `SELECT ${rowKeyColumn} FROM ${changesTable(stream)}`],
    ['history', `SELECT ${rowKeyColumn} FROM ${beforeTable(stream)}`],
    ['rejects', `SELECT key FROM ${storeTable('rejects', 'cdsync')} WHERE stream = ${sqlText(stream)}`],
  ];
  for (const path of await filesBelow(layout.stream(stream), '.parquet'))
    sources.push(['parquet', `SELECT ${rowKeyColumn} FROM read_parquet(${fileText(path)})`]);
  for (const runId of await runFolders(layout)) {
    const place = (await readHeld(layout, runId, stream)) === undefined ? 'unfinished' : 'held';
    for (const path of await filesBelow(join(layout.streamRun(runId, stream), 'parts'), '.keys'))
      sources.push([place, `SELECT key FROM read_parquet(${fileText(path)})`]);
  }
  for (const path of await filesBelow(layout.known(stream), '.parquet'))
    sources.push(['cache', `SELECT key FROM read_parquet(${fileText(path)})`]);
  return sources;
}

/** Keys of records that an uncommitted reading could not keep. */
async function waitingRejects(layout: JobLayout, stream: string): Promise<string[]> {
  const folders = (await runFolders(layout)).map((runId) => join(layout.streamRun(runId, stream), 'parts'));
  const files = (await Promise.all(folders.map((folder) => filesBelow(folder, '.rejects.jsonl')))).flat();
  const rejects = (await Promise.all(files.map(rejectsIn))).flat();
  return rejects.map((reject) => String((reject as { key: unknown }).key));
}

/** Texts that one statement looks for in nested columns. */
const nestedAtOnce = 50;

/**
 * The keys of rows that name people, and which key each names: in a column of texts, such as the second id of a pair, or as a text within
 * a list, a struct, a map or JSON.
 */
async function keysOfNaming(
  { session }: SnapshotStore,
  { stream, key, columns }: StreamState,
  forms: KeyForms['forms'],
): Promise<Map<string, Set<number>>> {
  const list = ColumnSet.restore(columns).list;
  const nested = list.filter(({ type }) => isNested(type) || type === 'JSON');
  const texts = list.filter(({ type, form }) => type === 'VARCHAR' || form !== undefined);
  const naming = new Map<string, Set<number>>();
  const find = async (values: string, where: string, among: readonly string[]) => {
    const rows = [storeTable(stream), changesTable(stream), beforeTable(stream)]
      .map((table) => `SELECT ${rowKey(key)} AS key, unnest([${values}]) AS text FROM ${table} WHERE ${where}`)
      .join(' UNION ALL ');
    const sql = `SELECT DISTINCT key, text FROM (${rows}) WHERE text IN (SELECT unnest(${sqlTexts(among)}))`;
    for (const { key: row, text } of await session.rows(sql))
      naming.set(String(row), new Set([...(naming.get(String(row)) ?? []), ...(forms.get(String(text)) ?? [])]));
  };
  const all = [...forms.keys()];
  if (texts.length > 0)
    await find(texts.map(({ name }) => `${quoteIdentifier(name)}::VARCHAR`).join(', '), 'true', all);
  for (let from = 0; nested.length > 0 && from < all.length; from += nestedAtOnce) {
    const some = all.slice(from, from + nestedAtOnce);
    const named = some.map((text) => `CASE WHEN ${hasValue(nested, [text])} THEN ${sqlText(text)} END`);
    await find(named.join(', '), hasValue(nested, some), some);
  }
  return naming;
}

/**
 * Finds the data that a stream has of some people: in snapshot, changes and history, in Parquet files of any run, in rejects, in the record
 * cache, and in uncommitted readings.
 * @param isPart whether a text of a key of several columns is enough, so that `p-1` finds `["vip","p-1"]`
 * @param sources of a ledger: the streams whose rows it keeps; a row that names the people in any column is found
 */
export async function findPeople(
  store: SnapshotStore,
  { database, layout, state }: { database: Database; layout: JobLayout; state: StreamState },
  { requested, isPart, sources }: { requested: readonly string[]; isPart: boolean; sources: readonly StreamState[] },
): Promise<FoundPeople> {
  const { forms: ownForms, lacksSalt } = await keyForms(store, database, state, requested);
  const forms = new Map(ownForms);
  for (const source of sources)
    for (const [form, asked] of (await keyForms(store, database, source, requested)).forms) forms.set(form, asked);
  if (sources.length > 0) for (const [text, asked] of await keysOfNaming(store, state, forms)) forms.set(text, asked);
  const counts = { rows: 0, changes: 0, history: 0, rejects: 0, parquet: 0, cache: 0, held: 0, unfinished: 0 };
  const keys = new Map<string, Set<number>>();
  const anyPart = isPart || sources.length > 0;
  const key = anyPart ? state.key : state.key.slice(0, 1);
  const note = (text: string) => {
    const parts = anyPart ? partsOfKey(text, state.key) : [text];
    const asked = parts.flatMap((part) => [...(forms.get(part) ?? [])]);
    if (asked.length > 0) keys.set(text, new Set([...(keys.get(text) ?? []), ...asked]));
    return asked.length > 0;
  };
  const wanted = `(SELECT unnest(${sqlTexts([...forms.keys()])}))`;
  for (const [place, sql] of await sourcesOf(layout, state)) {
    const isWanted =
      key.length === 1 ? wanted : `(SELECT key FROM (${partsOfKeys(`(${sql})`, key)}) WHERE part IN ${wanted})`;
    const rows = await store.session.rows(
      `SELECT key, count(*) AS count FROM (${sql}) WHERE key IN ${isWanted} GROUP BY key`,
    );
    for (const row of rows) {
      note(String(row.key));
      counts[place] += Number(row.count);
    }
  }
  for (const text of await waitingRejects(layout, state.stream)) if (note(text)) counts.unfinished += 1;
  return { counts, keys, lacksSalt };
}

/** Whether a job has a store. */
export async function hasStore({ store, remoteFiles }: JobLayout): Promise<boolean> {
  return (await statOrUndefined(store)) !== undefined || remoteFiles?.find(store) !== undefined;
}

/** The error for a key that no row has. It names the position of the key, not the key itself. */
export function absentKey(where: string, keys: readonly string[], index: number): CdsyncError {
  const which = keys.length === 1 ? 'this key' : `key ${index + 1} of ${keys.length}`;
  const key = keys[index] ?? '';
  const isList = key.includes(',') && !key.startsWith('[');
  const advice = isList
    ? 'separate keys by spaces, not by commas'
    : 'write the key as the service does; `--even-if-absent` erases it anyway, from destinations and damaged files';
  return new CdsyncError(`no row of ${where} has ${which}; nothing was deleted`, {
    code: 'key_not_found',
    hint: advice,
  });
}
