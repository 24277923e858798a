import {
  type AsyncBuffer,
  asyncBufferFromFile,
  type FileMetaData,
  parquetMetadataAsync,
  parquetRead,
  parquetSchema,
  type SchemaTree,
} from 'hyparquet';
import { compressors } from 'hyparquet-compressors';

/** The content of a file as a Parquet reader other than DuckDB finds it. */
export interface ReadParquet {
  readonly columns: readonly string[];
  readonly rows: number;
  /** For each column, how many of its rows have a value. */
  readonly values: readonly number[];
  /** The sum of all key hashes, modulo 2^52. Two sets of rows with the same keys have the same sum. */
  readonly keySum: number;
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
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
      parsers: { stringFromBytes: decoded, jsonFromBytes: decoded } as any,
      onComplete: (rows: unknown[][]) => {
        for (const [index, values] of rows.entries()) {
          for (const [place, column] of columns.entries()) take(column, values[place], from + index);
        }
      },
    });
    from += rows;
  }
}

function decoded(bytes?: Uint8Array): string | undefined {
  return bytes && decoder.decode(bytes);
}

/** A column's name as the library gives it: without a first U+FEFF. */
export function nameInReader(name: string): string {
  return name.replace(/^\uFEFF/, '');
}

/** Numbers the columns, for the library may give two of them one name. @returns their names */
function numberColumns(metadata: FileMetaData): string[] {
  const leaves = metadata.row_groups.map(({ columns }) => columns.values());
  return parquetSchema(metadata).children.map((column, index) => {
    const { name } = column.element;
    const own = leavesOf(column);
    for (const columns of leaves) {
      for (let leaf = 0; leaf < own; leaf += 1) {
        const path = columns.next().value?.meta_data?.path_in_schema;
        if (path !== undefined) path[0] = String(index);
      }
    }
    column.element.name = String(index);
    return name;
  });
}

function leavesOf({ children }: SchemaTree): number {
  return children.length === 0 ? 1 : children.reduce((sum, child) => sum + leavesOf(child), 0);
}

/**
 * Reads every value of a Parquet file, one column and row group at a time. The key is its column's text; for several
 * columns, a JSON list of their texts.
 * @throws the errors of the Parquet reader if the file is damaged
 */
export async function readWholeParquet(path: string, key: readonly string[]): Promise<ReadParquet> {
  const file = await asyncBufferFromFile(path);
  const metadata = await parquetMetadataAsync(file);
  const names = numberColumns(metadata);
  const columns = names.map((_, index) => String(index));
  const keys = key.map((name) => String(names.indexOf(nameInReader(name))));
  const rows = Number(metadata.num_rows);
  const values: number[] = [];
  const keyTexts: string[][] = [];
  const together = columns.length > fewColumns ? columnsTogether : 1;
  for (let first = 0; first < columns.length; first += together) {
    const some = columns.slice(first, first + together);
    const seen = new Map(some.map((column) => [column, { rows: 0, present: 0, place: keys.indexOf(column) }]));
    await readColumns(file, metadata, some, (column, value, row) => {
      const count = seen.get(column) as { rows: number; present: number; place: number };
      count.rows += 1;
      if (value !== null && value !== undefined) count.present += 1;
      if (count.place < 0) return;
      keyTexts[row] ??= [];
      (keyTexts[row] as string[])[count.place] = value instanceof Date ? String(value.getTime()) : String(value);
    });
    for (const [column, count] of seen) {
      if (count.rows !== rows) throw new Error(`column ${names[Number(column)]} has ${count.rows} rows, not ${rows}`);
      values[Number(column)] = count.present;
    }
  }
  const texts = keyTexts.map((parts) => (key.length === 1 ? (parts[0] ?? '') : JSON.stringify(parts)));
  return { columns: names, rows, values, keySum: texts.reduce((sum, text) => addKeys(sum, keyHash(text)), 0) };
}
