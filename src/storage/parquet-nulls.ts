import { open } from 'node:fs/promises';
import { readFooter } from './parquet-stamp.js';
import type { ThriftField, ThriftList, ThriftStruct } from './thrift.js';

/** The rows of a Parquet file and, of each column, how many of them have no value; undefined where the file does not say. */
interface NullCounts {
  readonly rows: number;
  readonly nulls: ReadonlyMap<string, number | undefined>;
}

function field(fields: ThriftStruct | undefined, id: number): ThriftField['value'] | undefined {
  return fields?.find((each) => each.id === id)?.value;
}

function items<T>(fields: ThriftStruct | undefined, id: number): readonly T[] {
  return ((field(fields, id) as ThriftList | undefined)?.items ?? []) as unknown as readonly T[];
}

/**
 * Counts the missing values of a Parquet file by the statistics at its end, without reading a row. Ids are those of Parquet's
 * Thrift definition: ColumnMetaData has the path as 3 and the statistics as 12; Statistics has the number of nulls as 3.
 * @throws {RangeError} if the file is no Parquet file
 */
export async function nullCounts(path: string): Promise<NullCounts> {
  const handle = await open(path, 'r');
  try {
    const { footer } = await readFooter(handle, (await handle.stat()).size);
    const nulls = new Map<string, number | undefined>();
    for (const group of items<ThriftStruct>(footer, 4)) {
      for (const chunk of items<ThriftStruct>(group, 1)) {
        const description = field(chunk, 3) as ThriftStruct | undefined;
        const name = items<Buffer>(description, 3).map(String).join('.');
        const count = field(field(description, 12) as ThriftStruct | undefined, 3) as bigint | undefined;
        const before = nulls.has(name) ? nulls.get(name) : 0;
        nulls.set(name, before === undefined || count === undefined ? undefined : before + Number(count));
      }
    }
    return { rows: Number(field(footer, 3) ?? 0n), nulls };
  } finally {
    await handle.close();
  }
}
