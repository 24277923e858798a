import type { ColumnSum } from './destination.js';

/** The SQL that counts and sums a column. */
export interface SummedColumn {
  readonly name: string;
  /** SQL of its value. */
  readonly value: string;
  /** SQL of the sum over its values, as text; undefined if only the number of values is compared. */
  readonly sum: string | undefined;
}

/**
 * The answer of {@link TableDestination.checksum}, from one SELECT.
 * @param read Takes the SELECT list and returns the one result row; undefined if there is nothing to read
 * @param identifier Quotes a name
 */
export async function columnSums(
  columns: readonly SummedColumn[],
  identifier: (name: string) => string,
  read: (selected: string) => Promise<Readonly<Record<string, unknown>> | undefined>,
): Promise<ReadonlyMap<string, ColumnSum>> {
  const selected = columns.flatMap(({ value, sum }, index) => [
    `count(${value}) AS ${identifier(`n${index}`)}`,
    ...(sum === undefined ? [] : [`${sum} AS ${identifier(`s${index}`)}`]),
  ]);
  const row = selected.length === 0 ? undefined : await read(selected.join(', '));
  return new Map(
    columns.map(({ name, sum }, index) => [
      name,
      { values: Number(row?.[`n${index}`] ?? 0), sum: sum === undefined ? undefined : String(row?.[`s${index}`] ?? 0) },
    ]),
  );
}
