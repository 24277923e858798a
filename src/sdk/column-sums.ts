import type { ColumnSum } from './destination.js';

/** A column as a statement counts and sums it. */
export interface SummedColumn {
  readonly name: string;
  /** SQL of its value. */
  readonly value: string;
  /** SQL of the sum over its values, as text; undefined where only their number is compared. */
  readonly sum: string | undefined;
}

/**
 * What {@link TableDestination.checksum} tells, by one SELECT.
 * @param read Takes what is to be selected, and brings the one row that it makes; nothing where there are no rows to ask
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
