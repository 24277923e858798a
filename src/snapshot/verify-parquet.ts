import {
  type AsyncBuffer,
  asyncBufferFromFile,
  type FileMetaData,
  parquetMetadataAsync,
  parquetRead,
  parquetSchema,
} from 'hyparquet';
import { compressors } from 'hyparquet-compressors';

/** What a Parquet reader other than DuckDB finds in a file. */
export interface ReadParquet {
  readonly columns: readonly string[];
  readonly rows: number;
  /** For each column, how many of its rows have a value. */
  readonly values: ReadonlyMap<string, number>;
  /** The sum of all key hashes, modulo 2^52. Two sets of rows with the same keys have the same sum. */
  readonly keySum: number;
}

const decoder = new TextDecoder();
const modulus = 2 ** 52;

/** FNV-1a over UTF-16 code units, twice, as one number of 52 bits. */
export function keyHash(text: string): number {
  let [low, high] = [0x811c9dc5, 0x9747b28c];
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    low = Math.imul(low ^ unit, 0x01000193);
    high = Math.imul(high ^ unit, 0x5bd1e995);
  }
  return (low >>> 0) + ((high >>> 0) & 0xfffff) * 2 ** 32;
}

/** Adds a {@link keyHash}, or a sum of them, to a sum. */
export function addKeys(sum: number, hash: number): number {
  return (sum + hash) % modulus;
}

/** Of a file with more columns, some are read together: each reading looks through the whole schema. */
const fewColumns = 500;
const columnsTogether = 100;

async function readColumns(
  file: AsyncBuffer,
  metadata: FileMetaData,
  columns: readonly string[],
  take: (column: string, value: unknown, row: number) => void,
): Promise<void> {
  let from = 0;
  for (const group of metadata.row_groups) {
    const rows = Number(group.num_rows);
    await parquetRead({
      file,
      metadata,
      compressors,
      columns: [...columns],
      rowStart: from,
      rowEnd: from + rows,
      rowFormat: 'array',
      // biome-ignore lint/suspicious/noExplicitAny: the library's type asks for all parsers, but its code fills in those left out.
      parsers: { jsonFromBytes: (bytes?: Uint8Array) => bytes && decoder.decode(bytes) } as any,
      onComplete: (found: unknown[][]) => {
        for (const [index, values] of found.entries()) {
          for (const [place, column] of columns.entries()) take(column, values[place], from + index);
        }
      },
    });
    from += rows;
  }
}

/**
 * Reads every value of a Parquet file, one column and row group at a time. The key is its column's text; for several
 * columns, a JSON list of their texts.
 * @throws the errors of the Parquet reader if the file is damaged
 */
export async function readWholeParquet(path: string, key: readonly string[]): Promise<ReadParquet> {
  const file = await asyncBufferFromFile(path);
  const metadata = await parquetMetadataAsync(file);
  const columns = parquetSchema(metadata).children.map(({ element }) => element.name);
  const rows = Number(metadata.num_rows);
  const values = new Map<string, number>();
  const keys: string[][] = [];
  const together = columns.length > fewColumns ? columnsTogether : 1;
  for (let first = 0; first < columns.length; first += together) {
    const some = columns.slice(first, first + together);
    const seen = new Map(some.map((column) => [column, { rows: 0, present: 0, place: key.indexOf(column) }]));
    await readColumns(file, metadata, some, (column, value, row) => {
      const count = seen.get(column) as { rows: number; present: number; place: number };
      count.rows += 1;
      if (value !== null && value !== undefined) count.present += 1;
      if (count.place < 0) return;
      keys[row] ??= [];
      (keys[row] as string[])[count.place] = textOf(value);
    });
    for (const [column, count] of seen) {
      if (count.rows !== rows) throw new Error(`column ${column} has ${count.rows} rows, not ${rows}`);
      values.set(column, count.present);
    }
  }
  const texts = keys.map((parts) => (key.length === 1 ? (parts[0] ?? '') : JSON.stringify(parts)));
  return { columns, rows, values, keySum: texts.reduce((sum, text) => addKeys(sum, keyHash(text)), 0) };
}

function textOf(value: unknown): string {
  return value instanceof Date ? String(value.getTime()) : String(value);
}
