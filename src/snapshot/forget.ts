import { copyFile, link, mkdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { ColumnSet, holdNegativeZero } from '../columns/columns.js';
import { rowKey } from '../columns/row-hash.js';
import { sha256OfFile } from '../core/durable.js';
import { CdsyncError } from '../core/errors.js';
import { fileText, quoteIdentifier, sqlText, sqlTexts } from '../core/sql.js';
import { areLarge, rowsTogether } from '../storage/large-rows.js';
import type { JobLayout } from '../storage/layout.js';
import { type ParquetCompression, writeParquet } from '../storage/parquet.js';
import { nextCommitTime, recordCommitTime } from './history.js';
import { fewRowsOf, rowBytesOf, storedRowBytes } from './large-rows.js';
import { rewriteChanges } from './rewrite-changes.js';
import { snapshotFileName } from './snapshot-folder.js';
import type { SnapshotStore } from './snapshot-store.js';
import { beforeTable, changesTable, keysTable, storeTable } from './store-tables.js';
import type { CommittedFile, StreamState } from './stream-state.js';

interface ForgetTask {
  readonly layout: JobLayout;
  readonly state: StreamState;
  /** Keys in the form that the stream's rows have. */
  readonly keys: readonly string[];
  readonly runId: string;
  /** ISO 8601; later than the previous snapshot. */
  readonly at: string;
  /** Of the new snapshot. */
  readonly sequence: number;
  /** The private folder for new files. */
  readonly folder: string;
  readonly compression: ParquetCompression;
  /** Changes before this time may be gone from the store: ISO 8601. */
  readonly horizon: string;
}

/** How much was erased. */
export interface Forgotten {
  /** Rows of the snapshot. */
  readonly rows: number;
  /** Rows of the table of changes and of the earlier table. */
  readonly history: number;
}

/** Between the values of a row: texts do not have it. */
const separator = '\u001f';

export type NamedColumn = { readonly name: string; readonly type: string };

const isText = (type: string) => type === 'VARCHAR' || type === 'JSON';
export const isNested = (type: string) => type.endsWith(']') || /^(STRUCT|MAP|UNION)\(/.test(type);

/** SQL for the values of a column as text. */
function textOf({ name, type }: NamedColumn): string {
  return isNested(type) ? `to_json(${quoteIdentifier(name)})::VARCHAR` : `${quoteIdentifier(name)}::VARCHAR`;
}

const wholeNumber = /^[-+]?\d+$/;
const moment = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:[-+0-9.:Z]+$/;

/** Whether a cast to the type keeps all of a text: 37.54 as an integer is 38, which many rows have. */
function isOfType(text: string, type: string): boolean {
  if (/INT/.test(type)) return wholeNumber.test(text);
  if (type === 'DATE') return /^\d{4}-\d{2}-\d{2}$/.test(text);
  if (type.startsWith('TIMESTAMP')) return moment.test(text);
  const [, scale] = /^DECIMAL\(\d+,(\d+)\)$/.exec(type) ?? [];
  const [, digits] = /^[-+]?\d*(?:\.(\d*))?(?:[eE][-+]?\d+)?$/.exec(text) ?? [];
  if (scale !== undefined) return wholeNumber.test(text) || (digits !== undefined && digits.length <= Number(scale));
  return (type === 'DOUBLE' || type === 'FLOAT') && (wholeNumber.test(text) || digits !== undefined);
}

/**
 * SQL for whether a row has one of the texts as a whole value, or within a list, a struct or JSON. It compares columns as they are: to make
 * a text of each row would take ten times as long.
 */
export function hasValue(columns: readonly NamedColumn[], texts: readonly string[]): string {
  const tests = columns.flatMap((column) => {
    const value = quoteIdentifier(column.name);
    // A subquery would be planned, and hashed, once for each column.
    if (column.type === 'VARCHAR') return [`${value} IN (${texts.map(sqlText).join(', ')})`];
    if (isText(column.type) || isNested(column.type))
      return texts.map((text) => `contains(${textOf(column)}, ${sqlText(JSON.stringify(text))})`);
    return texts
      .filter((text) => isOfType(text, column.type))
      .map((text) => `${value} = TRY_CAST(${sqlText(text)} AS ${column.type})`);
  });
  return tests.length === 0 ? 'false' : tests.join(' OR ');
}

/** A longer text is in SQL and in memory many times over, and its row has shorter ones. */
const maxSearchedLetters = 4000;

/** Texts that only these rows have, of 6 to 4,000 characters: a search for them shows whether a file still has data of the person. @param most number of them */
export async function identifyingValues(
  { session }: SnapshotStore,
  { stream, key, columns }: StreamState,
  { keys, most }: { keys: readonly string[]; most: number },
): Promise<string[]> {
  const table = storeTable(stream);
  const isOfKeys = `${rowKey(key)} IN (${keys.map(sqlText).join(', ')})`;
  const texts = ColumnSet.restore(columns).list.flatMap(({ name, type }) => (type === 'VARCHAR' ? [name] : []));
  if (texts.length === 0 || keys.length === 0 || most <= 0) return [];
  const short = (name: string) =>
    `CASE WHEN length(${quoteIdentifier(name)}) BETWEEN 6 AND ${maxSearchedLetters} THEN ${quoteIdentifier(name)} END AS ${quoteIdentifier(name)}`;
  const rows = await session.rows(`SELECT ${texts.map(short).join(', ')} FROM ${table} WHERE ${isOfKeys}`);
  const values = texts.flatMap((name) => {
    const ofColumn = rows.flatMap((row) => (row[name] == null ? [] : [String(row[name])]));
    return [...new Set(ofColumn)].map((text) => ({ name, text }));
  });
  const unique = new Set<string>();
  for (let from = 0; from < values.length && unique.size < most; from += textsAtOnce) {
    const some = values.slice(from, from + textsAtOnce);
    // A text that many rows have is found at once, and one that few have is looked for in one column.
    const isShared = some.map(
      ({ name, text }, index) =>
        `EXISTS (SELECT 1 FROM ${table} WHERE ${quoteIdentifier(name)} = ${sqlText(text)} AND NOT (${isOfKeys})) AS shared_${index}`,
    );
    const [shared] = await session.rows(`SELECT ${isShared.join(', ')}`);
    for (const [index, { text }] of some.entries()) if (shared?.[`shared_${index}`] !== true) unique.add(text);
  }
  return [...unique].slice(0, most);
}

/** At most this number of texts is looked for in one pass. */
const textsAtOnce = 50;

/** Texts that rows of a stream have: as a whole value, and as a part of a longer one. */
interface HeldTexts {
  readonly whole: ReadonlySet<string>;
  readonly parts: ReadonlySet<string>;
}

/** Which of the texts a stream's rows, changes and history have. */
export async function heldTexts(
  { session }: SnapshotStore,
  state: Pick<StreamState, 'stream' | 'columns' | 'large_texts'>,
  texts: readonly string[],
): Promise<HeldTexts> {
  const { stream, columns } = state;
  const hasNumber = texts.some((text) => /^[-+0-9.:TZe ]+$/.test(text));
  const list = ColumnSet.restore(columns).list.filter(({ type }) => hasNumber || isText(type) || isNested(type));
  if (list.length === 0 || texts.length === 0) return { whole: new Set(), parts: new Set() };
  const sources: string[] = [];
  for (const table of [storeTable(stream), changesTable(stream), beforeTable(stream)]) {
    const rowBytes = await storedRowBytes(session, table, state);
    const together = areLarge(rowBytes) ? rowsTogether(rowBytes) : undefined;
    sources.push(...(await fewRowsOf(session, { table, together })));
  }
  const whole = new Set<string>();
  const parts = new Set<string>();
  for (let from = 0; from < texts.length; from += textsAtOnce) {
    const some = texts.slice(from, from + textsAtOnce);
    const forms = (text: string) => [...new Set([text, JSON.stringify(text).slice(1, -1)])];
    // With a separator at either end: to add these afterwards would copy large rows twice.
    const row = `concat_ws(${sqlText(separator)}, '', ${list.map(textOf).join(', ')}, '')`;
    const isIn = (someForms: readonly string[]) =>
      someForms.map((form) => `contains(row, ${sqlText(form)})`).join(' OR ');
    const tests = some.map((text, index) => {
      const whole = isIn([`${separator}${text}${separator}`, JSON.stringify(text)]);
      return `max(CASE WHEN NOT (${isIn(forms(text))}) THEN 0 WHEN ${whole} THEN 2 ELSE 1 END) AS text_${index}`;
    });
    const held = some.map(() => 0);
    for (const from of sources) {
      const [lengths] = await session.rows(`SELECT ${tests.join(', ')} FROM (SELECT ${row} AS row FROM (${from}))`);
      for (const index of held.keys())
        held[index] = Math.max(held[index] ?? 0, Number(lengths?.[`text_${index}`] ?? 0));
    }
    for (const [index, text] of some.entries()) {
      if (held[index] === 2) whole.add(text);
      else if (held[index] === 1) parts.add(text);
    }
  }
  return { whole, parts };
}

/** The files of the snapshot without the rows. A file that has none of them is linked as it is. */
async function filesWithout(store: SnapshotStore, task: ForgetTask): Promise<CommittedFile[]> {
  const { layout, state, keys, runId, folder, compression } = task;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const files: CommittedFile[] = [];
  for (const [index, file] of state.snapshot.entries()) {
    const name = snapshotFileName(runId, index, state.snapshot.length === 1);
    const [source, target] = [join(layout.stream(state.stream), file.path), join(folder, name)];
    if ((await sha256OfFile(source)) !== file.sha256)
      throw new CdsyncError(`${source} is damaged: its checksum is not that of the commit`, {
        code: 'snapshot_incomplete',
        hint: 'cdsync run --full writes it again from the store; then forget once more',
      });
    const common = { path: `snapshot/${runId}/${name}`, from: relative(layout.folder, target) };
    const rows = `FROM read_parquet(${fileText(source)})`;
    const isOfKeys = `${rowKey(state.key)} IN (SELECT unnest(${sqlTexts(keys)}))`;
    const has = await store.session.number(`SELECT count(*) ${rows} WHERE ${isOfKeys}`);
    if (has === 0) {
      await link(source, target).catch(() => copyFile(source, target));
      files.push({ ...file, ...common });
      continue;
    }
    const query = `SELECT * ${rows} WHERE NOT (${isOfKeys})`;
    const {
      rows: left,
      bytes,
      sha256,
    } = await writeParquet(store.session, query, target, {
      compression,
      keepsZeroSigns: holdNegativeZero(state.columns),
      rowBytes: await rowBytesOf(store.session, [source]),
    });
    if (left > 0 || state.snapshot.length === 1) files.push({ ...common, rows: left, bytes, sha256 });
  }
  return files;
}

async function erase({ session }: SnapshotStore, { state, keys }: ForgetTask): Promise<Forgotten> {
  const { stream, key } = state;
  const list = `(SELECT unnest(${sqlTexts(keys)}))`;
  const isOfKeys = `${rowKey(key)} IN ${list}`;
  const count = (rows: string) => session.number(`SELECT count(*) FROM ${rows}`);
  const rows = await count(`${storeTable(stream)} WHERE ${isOfKeys}`);
  const past = [changesTable(stream), beforeTable(stream)];
  let history = 0;
  for (const table of past) history += await count(`${table} WHERE ${isOfKeys}`);
  for (const table of [storeTable(stream), ...past]) {
    await session.run(`DELETE FROM ${table} WHERE ${isOfKeys}`);
  }
  await session.run(`DELETE FROM ${keysTable(stream)} WHERE key IN ${list}`);
  await session.run(
    `DELETE FROM ${storeTable('rejects', 'cdsync')} WHERE stream = ${sqlText(stream)} AND key IN ${list}`,
  );
  return { rows, history };
}

/**
 * Erases rows from the snapshots, changes and histories of streams, in one separate commit. Older files still have the rows until the
 * store is rewritten and the commit is published.
 * @param tasks of one run; each of another stream
 * @returns how much was erased of each
 */
export async function forgetRows(store: SnapshotStore, tasks: readonly ForgetTask[]): Promise<Forgotten[]> {
  const { session } = store;
  const [first] = tasks;
  if (first === undefined) return [];
  const { runId, sequence } = first;
  const snapshots: CommittedFile[][] = [];
  for (const task of tasks) snapshots.push(await filesWithout(store, task));
  return session.transaction(async () => {
    const committedAt = await nextCommitTime(store, first.at);
    const time = `${sqlText(committedAt)}::TIMESTAMPTZ`;
    const erased: Forgotten[] = [];
    for (const [index, task] of tasks.entries()) {
      const { state, at } = task;
      const forgotten = await erase(store, task);
      erased.push(forgotten);
      const rows = state.rows - forgotten.rows;
      const changes = await rewriteChanges(store, { ...task, columns: state.columns });
      const { rewritten_changes: _, ...known } = state;
      const next: StreamState = {
        ...known,
        run_id: runId,
        sequence,
        synced_at: at,
        rows,
        snapshot: snapshots[index] ?? [],
        changes: [],
        forgotten: true,
        rewritten: true,
        ...(changes === undefined ? {} : { rewritten_changes: changes }),
      };
      await store.rememberStream(next);
      await recordCommitTime(store, next, committedAt);
      await session.run(
        `INSERT INTO ${storeTable('streams', 'cdsync')} VALUES (${sqlText(runId)}, ${sqlText(state.stream)}, ${sequence}, true,
           ${[rows, 0, 0, forgotten.rows, rows, 0, 0].join(', ')}, true)`,
      );
    }
    await session.run(
      `INSERT INTO ${storeTable('runs', 'cdsync')} VALUES (${sqlText(runId)}, ${sequence}, 'ok', ${time}, ${time})`,
    );
    return erased;
  });
}
