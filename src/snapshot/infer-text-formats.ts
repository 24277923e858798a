import { Kind } from '../columns/column-shape.js';
import { ColumnSet, type StoredColumn } from '../columns/columns.js';
import { doubleStyles } from '../columns/double-text.js';
import { doubleName, isNumber, parseTextCode, plainText, similarNames, writeTextCode } from '../columns/text-code.js';
import { formatNamed, inferTextFormat, textMismatchSql } from '../columns/text-format.js';
import { widen } from '../columns/widen.js';
import { quoteIdentifier } from '../core/sql.js';
import type { Session } from '../storage/duckdb.js';
import type { SnapshotStore } from './snapshot-store.js';
import { beforeTable, changesTable, storeTable } from './store-tables.js';
import type { StreamState } from './stream-state.js';

/** Columns that one query infers. */
const columnsTogether = 100;

/**
 * Finds the form that all texts of a column have, for each of some columns.
 * @param source SQL for the rows, as it follows FROM; it is read twice
 * @param names columns of type VARCHAR
 * @returns the code of the form, by name; a column without texts is left out
 */
export async function inferTextFormats(
  session: Session,
  source: string,
  names: readonly string[],
): Promise<Map<string, string>> {
  const formats = new Map<string, string>();
  for (let from = 0; from < names.length; from += columnsTogether) {
    const some = names.slice(from, from + columnsTogether);
    for (const [name, code] of await inferTogether(session, source, some)) formats.set(name, code);
  }
  return formats;
}

/** A column of texts, and the forms that they could have. */
interface Candidate {
  readonly name: string;
  readonly hasEmpty: boolean;
  /** Names of forms, the narrowest first. */
  readonly forms: readonly string[];
  /** Names of forms of doubles. */
  readonly doubles: readonly string[];
}

function candidateOf(name: string, text: unknown, hasEmpty: boolean): Candidate {
  const code = text === null ? plainText : inferTextFormat(String(text));
  const form = code === plainText ? undefined : parseTextCode(code).name;
  if (form === undefined) return { name, hasEmpty, forms: [], doubles: [] };
  const doubles = isNumber(form) ? doubleStyles.map((style) => doubleName([style])) : [];
  return { name, hasEmpty, forms: similarNames(form), doubles };
}

/** Any text shows which forms it could have; then every text is compared with them. */
async function inferTogether(
  session: Session,
  source: string,
  names: readonly string[],
): Promise<readonly (readonly [name: string, code: string])[]> {
  const samples = names.map((name, index) => {
    const value = quoteIdentifier(name);
    return `any_value(nullif(${value}, '')) AS c${index}, coalesce(bool_or(${value} = ''), false) AS e${index}`;
  });
  const [row = {}] = await session.rows(`SELECT ${samples.join(', ')} FROM ${source}`);
  const candidates = names.flatMap((name, index) => {
    const [text = null, hasEmpty] = [row[`c${index}`], row[`e${index}`] === true];
    return text === null && !hasEmpty ? [] : [{ text, candidate: candidateOf(name, text, hasEmpty) }];
  });
  const fits = await fittingForms(
    session,
    source,
    candidates.map(({ candidate }) => candidate),
  );
  return candidates.map(({ text, candidate }) => {
    const { name, hasEmpty, forms } = candidate;
    if (text === null) return [name, writeTextCode({ name: undefined, styles: [], hasEmpty })] as const;
    const fit = fits.get(name) ?? new Set();
    const styles = doubleStyles.filter((style) => fit.has(doubleName([style])));
    const form = forms.find((name) => fit.has(name)) ?? (styles.length > 0 ? doubleName(styles) : undefined);
    return [name, form === undefined ? plainText : writeTextCode({ name: form, styles, hasEmpty })] as const;
  });
}

/** Which forms all texts of each column have, empty ones apart. */
async function fittingForms(
  session: Session,
  source: string,
  candidates: readonly Candidate[],
): Promise<Map<string, ReadonlySet<string>>> {
  const checks = candidates.flatMap(({ name, forms, doubles }) =>
    [...forms, ...doubles].map((form) => ({ name, form })),
  );
  if (checks.length === 0) return new Map();
  const counts = checks.map(({ name, form }, index) => {
    const value = quoteIdentifier(name);
    return `count(*) FILTER (${value} <> '' AND (${textMismatchSql(value, formatNamed(form))})) AS m${index}`;
  });
  const [misfits = {}] = await session.rows(`SELECT ${counts.join(', ')} FROM ${source}`);
  const fitting = checks.filter((_, index) => Number(misfits[`m${index}`]) === 0);
  return new Map(
    candidates.map(({ name }) => [name, new Set(fitting.filter((fit) => fit.name === name).map(({ form }) => form))]),
  );
}

/**
 * The columns of a snapshot, with the forms of those texts that no run has inferred: in rows, changes and history, because a column has
 * one type in all of them.
 * @param applies whether texts of a column must be inferred
 */
export async function inferColumnFormats(
  store: SnapshotStore,
  state: StreamState,
  applies: (column: StoredColumn) => boolean,
): Promise<StoredColumn[]> {
  const isText = ({ shape, declared }: StoredColumn) => shape.k === Kind.string || declared === 'VARCHAR';
  const open = state.columns.filter((column) => column.text === undefined && isText(column) && applies(column));
  if (open.length === 0) return state.columns;
  const texts = open.map(({ place, field, name }): StoredColumn => ({ place, field, name, shape: { k: Kind.string } }));
  const tables = [storeTable(state.stream), changesTable(state.stream), beforeTable(state.stream)];
  const selected = widen(state.columns, texts, 'table');
  const source = `(${tables.map((table) => `SELECT ${selected} FROM ${table}`).join(' UNION ALL ')})`;
  const names = ColumnSet.restore(texts).list.map(({ name }) => name);
  const formats = await inferTextFormats(store.session, source, names);
  return state.columns.map((column) => {
    const text = open.includes(column) ? formats.get(column.name) : undefined;
    return text === undefined ? column : { ...column, text };
  });
}
