import { secret, text, whole } from './option.js';

/** An option that connectors of several databases have: the schema of the tables. */
export function schemaOption(fallback: string) {
  const description = 'Schema of the tables. cdsync makes it if it is missing.';
  return text({ description, example: 'cdp' }).prefault(fallback);
}

/** The memory of a connector's own DuckDB. @param use such as `to load` */
export function memoryOption(use: string, { least = 64, fallback, example }: Readonly<Record<string, number>>) {
  const description = `Memory that DuckDB may use ${use}.`;
  return whole(least, 1_048_576, { description, unit: 'MB', example }).prefault(fallback as number);
}

/** A password or token of any form. @param example the variable that holds it */
export function passwordOption(description: string, example = '${WAREHOUSE_PASSWORD}') {
  return secret(/./s, { description, example }).optional();
}
