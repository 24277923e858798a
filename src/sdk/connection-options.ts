import { secret, text, whole } from './option.js';

/** An option that connectors of several databases have: the schema of the tables. */
export function schemaOption(fallback: string) {
  const description = 'Schema of the tables. cdsync makes it if it is missing.';
  return text({ description, example: 'cdp' }).prefault(fallback);
}

/** The memory of a connector's own DuckDB. @param use such as `to load` */
export function memoryOption(use: string, { least = 64, example }: Readonly<Record<string, number>>) {
  const description = `Memory that DuckDB may use ${use}. Default: by the columns of the stream, a part of \`resources.memory_mb\`.`;
  return whole(least, 1_048_576, { description, unit: 'MB', example }).optional();
}

/** Where nothing says how much memory there is, in MB. */
const usualMemoryMb = 512;

/** In MB, what one thread needs to write a table: of its present row group DuckDB has all values in memory. With less it reads and writes them again. */
const threadMb = 256;

/** Settings of a connector's own DuckDB: its memory, as configured or else its share of the job's, and the threads that work in it. */
export function memorySettings({
  options,
  memoryMb = usualMemoryMb,
  threads = 2,
}: {
  readonly options: { readonly memoryMb?: number | undefined };
  readonly memoryMb?: number | undefined;
  readonly threads?: number | undefined;
}): { readonly memory_limit: string; readonly threads: string } {
  const ownMb = options.memoryMb ?? memoryMb;
  return { memory_limit: `${ownMb}MB`, threads: String(Math.max(1, Math.min(threads, Math.floor(ownMb / threadMb)))) };
}

/** A password or token of any form. @param example the variable that holds it */
export function passwordOption(description: string, example = '${WAREHOUSE_PASSWORD}') {
  return secret(/./s, { description, example }).optional();
}
