import { Kind } from '../columns/column-shape.js';
import type { StoredColumn } from '../columns/columns.js';
import { textFormatOf } from '../columns/text-format.js';
import { quoteIdentifier } from '../core/sql.js';
import { isFilterable, maxParts, type Split, type SplitPart } from '../sources/splits.js';
import type { Session } from '../storage/duckdb.js';
import { storeTable } from './store-tables.js';
import type { StreamState } from './stream-state.js';

/** Rows that a first look takes, to leave out columns cheaply; every row decides in the end. */
const sampledRows = 20_000;
/** Wider tables are not looked at beyond this many columns. */
const maxColumns = 500;
/** Columns that are counted over all rows, and those of them that are combined in pairs. */
const countedColumns = 8;
const pairedColumns = 4;
/** A first attribute whose largest part is at most this share of the rows is not combined with another. */
const evenShare = 0.01;

type Candidate = Pick<StoredColumn, 'field' | 'name' | 'text'>;

/** SQL for the text of a column's value. */
function textOf({ name, text }: Candidate): string {
  const value = quoteIdentifier(name);
  return textFormatOf(text)?.text(value) ?? value;
}

/** Text as the service sent it: no rule has changed it, and the column was never anything else. */
function isPlainText({ place, shape, declared, rule, untracked }: StoredColumn): boolean {
  return place === 'attribute' && shape.k === Kind.string && !declared && !rule && !untracked;
}

/** Columns without nulls and with few values, as far as some rows show it; those that split these rows most evenly first. */
async function promising(session: Session, table: string, columns: readonly Candidate[]): Promise<Candidate[]> {
  const [first] = columns;
  if (first === undefined) return [];
  const expressions = columns.flatMap(({ name }, index) => {
    const column = quoteIdentifier(name);
    return [`count(${column}) AS c${index}`, `approx_count_distinct(${column}) AS d${index}`];
  });
  const names = columns.map(({ name }) => quoteIdentifier(name)).join(', ');
  const some = `(SELECT ${names} FROM ${table} LIMIT ${sampledRows})`;
  const [row = {}] = await session.rows(`SELECT count(*) AS n, ${expressions.join(', ')} FROM ${some}`);
  const likely = columns
    .map((column, index) => ({ column, filled: row[`c${index}`], values: Number(row[`d${index}`]) }))
    // The number of values is an estimate.
    .filter(({ filled, values }) => filled === row.n && values >= 2 && values <= maxParts * 1.2);
  const shares: { column: Candidate; most: number }[] = [];
  for (const { column } of likely) {
    const groups = `SELECT count(*) AS rows FROM ${some} GROUP BY ${quoteIdentifier(column.name)}`;
    shares.push({ column, most: await session.number(`SELECT max(rows) FROM (${groups})`) });
  }
  return shares.sort((a, b) => a.most - b.most).map(({ column }) => column);
}

/** The parts by the values of one column; undefined if a row has none, or filters cannot express them. */
async function partsBy(session: Session, table: string, candidate: Candidate): Promise<SplitPart[] | undefined> {
  const { field } = candidate;
  const column = textOf(candidate);
  const groups = await session.rows(
    `SELECT ${column} AS value, count(*) AS rows FROM ${table} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ${maxParts + 1}`,
  );
  if (groups.length < 2 || groups.length > maxParts) return undefined;
  const values = groups.map(({ value }) => value);
  if (!values.every((value) => typeof value === 'string' && isFilterable(value))) return undefined;
  // A service that compares without regard to case would return such records twice, and they would not match the filter.
  if (new Set(values.map((value) => String(value).toLowerCase())).size < values.length) return undefined;
  return groups.map(({ value, rows }) => ({ values: [[field, String(value)]], rows: Number(rows) }));
}

/** The parts by the values of two columns. Pairs that no record has are parts too: tomorrow one may have them. */
async function partsByPair(
  session: Session,
  table: string,
  [one, other]: readonly [Counted, Counted],
): Promise<SplitPart[]> {
  const [a, b] = [textOf(one.column), textOf(other.column)];
  const groups = await session.rows(`SELECT ${a} AS a, ${b} AS b, count(*) AS rows FROM ${table} GROUP BY 1, 2`);
  const rows = new Map(groups.map((group) => [JSON.stringify([group.a, group.b]), Number(group.rows)]));
  const parts = one.parts.flatMap(({ values: [first] }) =>
    other.parts.flatMap(({ values: [second] }): SplitPart[] => {
      if (first === undefined || second === undefined) return [];
      return [{ values: [first, second], rows: rows.get(JSON.stringify([first[1], second[1]])) ?? 0 }];
    }),
  );
  return parts.sort((x, y) => y.rows - x.rows);
}

interface Counted {
  readonly column: Candidate;
  readonly parts: SplitPart[];
}

/**
 * The ways to read a stream's list in parts: by one attribute that each row of the last snapshot has, or by two. It looks at
 * few rows of most columns, and at all rows of a few.
 * @param hides selects attributes that must not be used
 */
export async function splitCandidates(
  session: Session,
  { stream, columns, rows }: StreamState,
  hides: (field: string) => boolean,
): Promise<Split[]> {
  const table = storeTable(stream);
  const plain = columns.filter((column) => isPlainText(column) && !hides(column.field)).slice(0, maxColumns);
  const counted: Counted[] = [];
  for (const column of (await promising(session, table, plain)).slice(0, countedColumns)) {
    const parts = await partsBy(session, table, column);
    if (parts !== undefined) counted.push({ column, parts });
  }
  const splits: Split[] = counted.map(({ column, parts }) => ({ attributes: [column.field], parts }));
  if (counted.some(({ parts }) => (parts[0]?.rows ?? rows) <= rows * evenShare)) return splits;
  const combined = counted.slice(0, pairedColumns);
  for (const [index, one] of combined.entries()) {
    for (const other of combined.slice(index + 1)) {
      if (one.parts.length * other.parts.length > maxParts) continue;
      const parts = await partsByPair(session, table, [one, other]);
      splits.push({ attributes: [one.column.field, other.column.field], parts });
    }
  }
  return splits;
}
