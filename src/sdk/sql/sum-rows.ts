import type { TableSums } from '../destination.js';
import type { FoundRows, Load, TargetColumn } from '../load.js';
import type { MergeTask, SqlDialect, SqlRow } from './dialect.js';
import { rowNumber } from './row-sum.js';
import type { SqlStore } from './state-rows.js';
import { differSql, isLive, isOp, sameKey } from './statements.js';

/** Rows of a table that are summed: all, or those of a condition. */
export interface Summed {
  /** SQL of the name of their table. */
  readonly table: string;
  /** SQL after FROM. Default: the table. */
  readonly from?: string;
  readonly alias: string;
  readonly where?: string | undefined;
}

/** A column of a result: some databases return names in upper case. */
function field(row: SqlRow | undefined, name: string): unknown {
  return row?.[name] ?? row?.[name.toUpperCase()];
}

/** The columns whose values the database can give as text. */
export function hashedColumns({ canonical }: SqlDialect, columns: readonly TargetColumn[]): string[] {
  return columns.filter(({ kind }) => canonical('x', kind) !== undefined).map(({ name }) => name);
}

/**
 * SQL after SELECT and its list for these rows, in parts of few if they are large. DuckDB reads all lists of a vector, whichever rows are
 * wanted, and would make texts of all: those wanted are copied first.
 */
async function partsOf(
  { dialect, session }: SqlStore,
  { table, from = table, alias, where }: Summed,
): Promise<string[]> {
  const { rowsTogether: most } = dialect;
  const condition = where === undefined ? '' : ` WHERE ${where}`;
  if (most === undefined) return [`FROM ${from}${condition}`];
  const numbered = `SELECT ${alias}rowid AS r, (row_number() OVER (ORDER BY ${alias}rowid) - 1) // ${most} AS part FROM ${from}${condition}`;
  // As texts: rows that are not committed yet have numbers above 2^53.
  const rows = await session.rows(
    `SELECT min(r)::VARCHAR AS a, max(r)::VARCHAR AS b, CASE WHEN max(r) - min(r) >= count(*) THEN string_agg(r::VARCHAR, ', ') END AS some
     FROM (${numbered}) GROUP BY part ORDER BY part`,
  );
  return rows.map(({ a, b, some }) => {
    const within = `rowid BETWEEN ${a} AND ${b}${some === null ? '' : ` AND rowid IN (${some})`}`;
    return `FROM (WITH few AS MATERIALIZED (SELECT * FROM ${table} WHERE ${within}) FROM few) AS ${alias === '' ? 'few' : alias.slice(0, -1)}`;
  });
}

/** The number of rows, and the sum of a hash of each. */
export async function sumRows(store: SqlStore, summed: Summed, columns: readonly TargetColumn[]): Promise<TableSums> {
  const { dialect, session } = store;
  const texts = columns.flatMap(({ name, kind }) => {
    const text = dialect.canonical(`${summed.alias}${dialect.identifier(name)}`, kind);
    return text === undefined ? [] : [{ name, text }];
  });
  const parts = await partsOf(store, summed);
  /** The sum of each figure. */
  const read = async (figures: readonly string[]) => {
    const selected = figures.map((sql, index) => `${sql} AS s${index}`).join(', ');
    const sums: string[][] = [];
    for (const part of parts) {
      const [row] = await session.rows(`SELECT ${selected} ${part}`);
      sums.push(figures.map((_, index) => String(field(row, `s${index}`) ?? 0)));
    }
    // Some servers write a sum as a decimal: of a table in one part it is compared as it is.
    if (sums.length === 1) return sums[0] as string[];
    return figures.map((_, index) => String(sums.reduce((sum, part) => sum + BigInt(part[index] ?? 0), 0n)));
  };
  const sumOf = (all: readonly string[]) => dialect.hashing.sum(rowNumber(dialect.hashing, all));
  const all = texts.map(({ text }) => text);
  const [rows, sum = '0'] = await read(['count(*)', all.length === 0 ? '0' : sumOf(all)]);
  return {
    rows: Number(rows),
    sum,
    hashed: texts.map(({ name }) => name),
    digest: dialect.hashing.digest,
    sums: async () => {
      const perColumn = await read(texts.map(({ text }) => sumOf([text])));
      return new Map(texts.map(({ name }, index) => [name, perColumn[index] ?? '0']));
    },
  };
}

/** Columns without a text that are not as the staged rows have them. @param joined SQL after FROM */
async function differingColumns(
  { dialect, session }: SqlStore,
  { t, s }: Pick<MergeTask, 't' | 's'>,
  joined: string,
  columns: readonly TargetColumn[],
): Promise<string[]> {
  if (columns.length === 0) return [];
  const counts = columns.map(({ name, kind }, index) => {
    const [one, other] = [t, s].map((alias) => `${alias}.${dialect.identifier(name)}`) as [string, string];
    return `sum(CASE WHEN ${differSql(dialect, one, other, kind)} THEN 1 ELSE 0 END) AS d${index}`;
  });
  const [row] = await session.rows(`SELECT ${counts.join(', ')} FROM ${joined}`);
  return columns.filter((_, index) => Number(field(row, `d${index}`) ?? 0) > 0).map(({ name }) => name);
}

/** The figures of rows that were only added. */
export const unmerged = { left: 0, differing: [], live: undefined };

/** The rows of a load as they were found in the table, by their key. */
export async function foundRows(
  store: SqlStore,
  { table, write }: Load,
  staged: MergeTask,
  columns: readonly TargetColumn[],
): Promise<FoundRows> {
  const { dialect, session } = store;
  const { t, s, stage, target } = staged;
  const isMerge = write.type === 'merge';
  const joined = `${target} AS ${t} JOIN ${stage} AS ${s} ON ${sameKey(dialect, staged)}`;
  const where = isMerge ? isOp(dialect, s, 'upsert') : '1 = 1';
  const count = async (from: string, condition: string) => {
    const [row] = await session.rows(`SELECT count(*) AS n FROM ${from} WHERE ${condition}`);
    return Number(field(row, 'n') ?? 0);
  };
  const actualSums = await sumRows(store, { table: target, from: joined, alias: `${t}.`, where }, columns);
  const compared = columns.filter(({ name }) => !actualSums.hashed.includes(name));
  const differing = await differingColumns(store, staged, `${joined} WHERE ${where}`, compared);
  const left = isMerge ? await count(joined, isOp(dialect, s, 'delete')) : 0;
  const isSoft = table.columns.some(({ name }) => name === '_deleted_at');
  const isWhole = isMerge && write.isReload && write.absent !== 'keep';
  const live = isWhole ? await count(dialect.table(table.name), isSoft ? isLive(dialect) : '1 = 1') : undefined;
  return { ...actualSums, left, differing, live };
}
