import { quoteIdentifier } from '../core/sql.js';
import { Kind } from '../rows/column-shape.js';
import { ColumnSet, type StoredColumn } from '../rows/columns.js';
import { formOf, misfitsForm, narrower, plainText, textForm, widestForm } from '../rows/text-form.js';
import { widen } from '../rows/widen.js';
import type { Session } from '../store/duckdb.js';
import { changesTable, earlierTable, type SnapshotStore, type StreamState, storeTable } from './snapshot-store.js';

/** Columns that one query judges. */
const columnsTogether = 100;

/**
 * Finds the form that all texts of a column have, for each of some columns.
 * @param source SQL for the rows, as it stands behind FROM; it is read twice
 * @param names columns of type VARCHAR
 * @returns the code of the form, by name; a column without texts is left out
 */
export async function judgedTexts(
  session: Session,
  source: string,
  names: readonly string[],
): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (let from = 0; from < names.length; from += columnsTogether) {
    const some = names.slice(from, from + columnsTogether);
    for (const [name, code] of await judgedTogether(session, source, some)) found.set(name, code);
  }
  return found;
}

/** Any text tells which form it could be; then every text is held against it. */
async function judgedTogether(
  session: Session,
  source: string,
  names: readonly string[],
): Promise<readonly (readonly [name: string, code: string])[]> {
  const any = names.map((name, index) => `any_value(${quoteIdentifier(name)}) AS c${index}`);
  const [texts = {}] = await session.rows(`SELECT ${any.join(', ')} FROM ${source}`);
  const candidates = names.flatMap((name, index) => {
    const text = texts[`c${index}`];
    return text === null || text === undefined ? [] : [{ name, code: widestForm(formOf(String(text))) }];
  });
  const counts = candidates.flatMap(({ name, code }, index) => {
    const value = quoteIdentifier(name);
    const misfitting = (form: string | undefined) => {
      const known = textForm(form);
      return known === undefined ? '1' : `count(*) FILTER (${value} IS NOT NULL AND (${misfitsForm(value, known)}))`;
    };
    return [`${misfitting(code)} AS w${index}`, `${misfitting(narrower(code))} AS n${index}`];
  });
  if (counts.length === 0) return [];
  const [misfits = {}] = await session.rows(`SELECT ${counts.join(', ')} FROM ${source}`);
  return candidates.map(({ name, code }, index) => {
    const narrow = narrower(code);
    if (narrow !== undefined && Number(misfits[`n${index}`]) === 0) return [name, narrow] as const;
    return [name, Number(misfits[`w${index}`]) === 0 ? code : plainText] as const;
  });
}

/**
 * The columns of a snapshot, with the forms of those texts that no run has judged: in rows, changes and history, for a column has
 * one type in all of them.
 * @param judges whether texts of a column are to be judged
 */
export async function judgedColumns(
  store: SnapshotStore,
  state: StreamState,
  judges: (column: StoredColumn) => boolean,
): Promise<StoredColumn[]> {
  const isText = ({ shape, declared }: StoredColumn) => shape.k === Kind.string || declared === 'VARCHAR';
  const open = state.columns.filter((column) => column.text === undefined && isText(column) && judges(column));
  if (open.length === 0) return state.columns;
  const texts = open.map(({ place, field, name }): StoredColumn => ({ place, field, name, shape: { k: Kind.string } }));
  const tables = [storeTable(state.stream), changesTable(state), earlierTable(state.stream)];
  const selected = widen(state.columns, texts, 'table');
  const source = `(${tables.map((table) => `SELECT ${selected} FROM ${table}`).join(' UNION ALL ')})`;
  const names = ColumnSet.restore(texts).list.map(({ name }) => name);
  const found = await judgedTexts(store.session, source, names);
  return state.columns.map((column) => {
    const text = open.includes(column) ? found.get(column.name) : undefined;
    return text === undefined ? column : { ...column, text };
  });
}
