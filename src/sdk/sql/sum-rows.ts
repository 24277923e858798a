import type { TableSums } from '../destination.js';
import type { FoundRows, Load, TargetColumn } from '../load.js';
import type { MergeTask, SqlDialect, SqlRow } from './dialect.js';
import { rowNumber } from './row-sum.js';
import type { SqlStore } from './state-rows.js';
import { differSql, isLive, isOp, sameKey } from './statements.js';

/** Rows of a table that are summed: all, or those of a condition. */
export interface Summed {
  /** SQL after FROM. */
  readonly from: string;
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

/** The number of rows, and the sum of a hash of each. */
export async function sumRows(
  { dialect, session }: SqlStore,
  { from, alias, where }: Summed,
  columns: readonly TargetColumn[],
): Promise<TableSums> {
  const texts = columns.flatMap(({ name, kind }) => {
    const text = dialect.canonical(`${alias}${dialect.identifier(name)}`, kind);
    return text === undefined ? [] : [{ name, text }];
  });
  const read = async (selected: string) => {
    const [row] = await session.rows(`SELECT ${selected} FROM ${from}${where === undefined ? '' : ` WHERE ${where}`}`);
    return row;
  };
  const sumOf = (all: readonly string[]) => dialect.hashing.sum(rowNumber(dialect.hashing, all));
  const all = texts.map(({ text }) => text);
  const row = await read(`count(*) AS n, ${all.length === 0 ? '0' : sumOf(all)} AS s`);
  return {
    rows: Number(field(row, 'n') ?? 0),
    sum: String(field(row, 's') ?? 0),
    hashed: texts.map(({ name }) => name),
    digest: dialect.hashing.digest,
    sums: async () => {
      const perColumn = await read(texts.map(({ text }, index) => `${sumOf([text])} AS s${index}`).join(', '));
      return new Map(texts.map(({ name }, index) => [name, String(field(perColumn, `s${index}`) ?? 0)]));
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
  const actualSums = await sumRows(store, { from: joined, alias: `${t}.`, where }, columns);
  const compared = columns.filter(({ name }) => !actualSums.hashed.includes(name));
  const differing = await differingColumns(store, staged, `${joined} WHERE ${where}`, compared);
  const left = isMerge ? await count(joined, isOp(dialect, s, 'delete')) : 0;
  const isSoft = table.columns.some(({ name }) => name === '_deleted_at');
  const isWhole = isMerge && write.isReload && write.absent !== 'keep';
  const live = isWhole ? await count(dialect.table(table.name), isSoft ? isLive(dialect) : '1 = 1') : undefined;
  return { ...actualSums, left, differing, live };
}
