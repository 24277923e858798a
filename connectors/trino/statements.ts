import { type CsvRow, type LoadColumn, quoteIdentifier } from '../../src/sdk/index.js';
import { typed, valueText } from './types.js';

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
  const values = columns.map(({ targetType }, index) => typed(`r[${index + 1}]`, targetType));
  return `SELECT ${values.join(', ')} FROM UNNEST(CAST(json_parse('[${rows}]') AS array(array(varchar)))) AS x(r)`;
}

/** Where tables are. */
export interface SchemaPlace {
  readonly catalog: string;
  readonly schema: string;
}

/** The name of a table in a catalog and a schema. Trino keeps names in small letters, whatever is written. */
export function tablePath({ catalog, schema }: SchemaPlace, table: string): string {
  return [catalog, schema, table].map((name) => quoteIdentifier(name.toLowerCase())).join('.');
}
