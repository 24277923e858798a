import { type LoadColumn, type TableColumn, trinoIdentifier } from '../../src/sdk/former/index.js';
import type { CsvRow } from './csv.js';
import { typed, valueText } from './types.js';

export function definitions(columns: readonly TableColumn[]): string {
  return columns.map(({ name, type }) => `${trinoIdentifier(name)} ${type}`).join(', ');
}

/** A row as part of {@link literalRows}. */
export function rowText(row: CsvRow, columns: readonly Pick<LoadColumn, 'targetType'>[]): string {
  const texts = columns.map(({ targetType }, index) => {
    const text = row[index] ?? null;
    return text === null ? null : valueText(text, targetType);
  });
  return JSON.stringify(texts).replaceAll("'", "''");
}

/**
 * A query of the rows in a statement's own text. One literal of JSON, because Trino plans thousands of expressions in VALUES far
 * slower.
 * @param rows as {@link rowText} writes them, joined by commas
 */
export function literalRows(columns: readonly LoadColumn[], rows: string): string {
  const values = columns.map(
    ({ name, targetType }, index) => `${typed(`r[${index + 1}]`, targetType)} AS ${trinoIdentifier(name)}`,
  );
  return `SELECT ${values.join(', ')} FROM UNNEST(CAST(json_parse('[${rows}]') AS array(array(varchar)))) AS x(r)`;
}

/** The clause WITH of `SHOW CREATE TABLE`, without the place of the files: a table that replaces another keeps its properties. */
export function keptProperties(created: string): string {
  const [, body] = /\nWITH \(\n([\s\S]*)\n\)\s*$/.exec(created) ?? [];
  if (body === undefined) return '';
  // A property begins a line with three spaces and its name; the values of lists stay on their line.
  const kept = body
    .split(/,\n(?= {3}\w+ = )/)
    .map((line) => line.trim())
    .filter((line) => !/^location = /.test(line));
  return kept.length === 0 ? '' : ` WITH (${kept.join(', ')})`;
}

/** One statement after which the table holds exactly these rows. Columns that the load lacks stay, without values. */
export function replaceSql({
  target,
  rows,
  there,
  brought,
  properties,
}: {
  readonly target: string;
  readonly rows: string;
  /** The columns of the table. */
  readonly there: readonly TableColumn[];
  /** The columns of the rows. */
  readonly brought: readonly { readonly name: string }[];
  readonly properties: string;
}): string {
  const come = new Set(brought.map(({ name }) => name.toLowerCase()));
  const values = there.map(({ name, type }) =>
    come.has(name) ? trinoIdentifier(name) : `CAST(NULL AS ${type}) AS ${trinoIdentifier(name)}`,
  );
  return `CREATE OR REPLACE TABLE ${target}${properties} AS SELECT ${values.join(', ')} FROM (${rows})`;
}

/** The name of a table in a catalog and a schema. Trino keeps names in small letters, whatever is written. */
export function tablePath(
  { catalog, schema }: { readonly catalog: string; readonly schema: string },
  table: string,
): string {
  return [catalog, schema, table].map((name) => trinoIdentifier(name.toLowerCase())).join('.');
}
