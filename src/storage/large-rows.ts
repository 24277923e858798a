/** A session of DuckDB. */
interface Session {
  run(sql: string): Promise<void>;
  rows(sql: string): Promise<Record<string, unknown>[]>;
}

/** DuckDB works on this number of rows together, whatever their size. */
export const vectorRows = 2048;

/** Rows of more bytes are worked on in smaller numbers. */
const largeBytes = 32_000_000;

/** Bytes of large rows that are worked on together, about: DuckDB takes up to eight times as much in one allocation, and has several. */
const stepBytes = 8_000_000;

/** Whether rows of that many bytes are so large that {@link vectorRows} of them would take too much memory. */
export function areLarge(rowBytes: number): boolean {
  return rowBytes * vectorRows > largeBytes;
}

/**
 * How many rows to work on together.
 * @param rowBytes of a row where rows are largest
 * @param averageBytes of a row among all: of a table with few large rows, most steps have none
 */
export function rowsTogether(rowBytes: number, averageBytes = rowBytes): number {
  if (!areLarge(rowBytes)) return vectorRows;
  return Math.min(vectorRows, Math.max(1, Math.floor(stepBytes / Math.max(1, averageBytes))));
}

/** A range of a table has about this many bytes: with smaller ranges, `diff` asks for each, and needs more memory. */
const rangeBytes = 32_000_000;

/** How many rows of that many bytes a range of a table has. */
export function rangeRows(rowBytes: number): number {
  return Math.min(vectorRows, Math.max(1, Math.floor(rangeBytes / Math.max(1, rowBytes))));
}

/** A range of rows, by their numbers. */
export interface RowRange {
  readonly first: number;
  readonly last: number;
}

/** The rows of a table, by their numbers; undefined without rows. @param where which rows are wanted */
export async function rowSpan(
  session: Pick<Session, 'rows'>,
  table: string,
  where = 'true',
): Promise<RowRange | undefined> {
  const [span] = await session.rows(
    `SELECT min(rowid)::DOUBLE AS first, max(rowid)::DOUBLE AS last FROM ${table} WHERE ${where}`,
  );
  return span?.first == null ? undefined : { first: Number(span.first), last: Number(span.last) };
}

/** Ranges of at most that many rows, in their order: DuckDB reads only the rows of a range. */
export function rangesWithin({ first, last }: RowRange, rows: number): RowRange[] {
  const ranges: RowRange[] = [];
  for (let from = first; from <= last; from += rows)
    ranges.push({ first: from, last: Math.min(last, from + rows - 1) });
  return ranges;
}

/** SQL for the rows of a range. */
export function isWithin({ first, last }: RowRange): string {
  return `rowid BETWEEN ${first} AND ${last}`;
}

/**
 * Does work whose rows come from files. If they are large, each step of a statement passes them on as it gets them, a row group of a file
 * at most: DuckDB would collect 2,048 for the next step.
 * @param rowBytes of a row, on average, where rows are largest
 */
export async function withRowsOf<T>(session: Session, rowBytes: number, work: () => Promise<T>): Promise<T> {
  if (!areLarge(rowBytes)) return work();
  const [setting] = await session.rows("SELECT current_setting('enable_caching_operators') AS collects");
  if (setting?.collects === false) return work();
  await session.run('SET enable_caching_operators = false');
  try {
    return await work();
  } finally {
    // After a failed statement of a transaction, none can be run. The next ones are then slower, no more.
    await session.run('SET enable_caching_operators = true').catch(() => undefined);
  }
}
