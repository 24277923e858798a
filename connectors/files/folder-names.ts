import {
  type DataFile,
  filePattern,
  quoteIdentifier,
  type RefusedValue,
  type SqlSession,
  sqlText,
} from '../../src/sdk/index.js';

/** Most bytes of one name in the file systems and stores in use, and of all folders of a row: a key of S3 has 1,024. */
const maxNameLength = 255;
const maxNamesLength = 700;
/** At most this number of such values is taken out of a file at once: the file is written again for each lot. */
const maxAtOnce = 10_000;

const noValue = '__HIVE_DEFAULT_PARTITION__';
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are among those to escape.
const reserved = /[\x00-\x1f\x7f"#%'*/:=?\\{}[\]^]/g;

function hiveText(text: string): string {
  return text.replace(
    reserved,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
  );
}

/** The folders of a partition, in Hive's form: `country=DE/`. */
export function partitionPath(partition: Readonly<Record<string, string | null>>): string {
  return Object.entries(partition)
    .map(([name, value]) => `${hiveText(name)}=${value === null ? noValue : hiveText(value)}/`)
    .join('');
}

/** SQL for the bytes of a folder's name: each difficult character takes three. */
function nameBytes(column: string): string {
  const escaped = `regexp_replace(${quoteIdentifier(column)}::VARCHAR, ${sqlText(`[^${reserved.source.slice(1, -1)}]`)}, '', 'g')`;
  const value = `coalesce(strlen(${quoteIdentifier(column)}::VARCHAR) + 2 * strlen(${escaped}), ${noValue.length})`;
  return `(${Buffer.byteLength(hiveText(column)) + 1} + ${value})`;
}

/** Why a value cannot be the name of a folder, and SQL that is true for such a row. The first that applies counts. */
function refusals(columns: readonly string[]): { column: string; reason: string; when: string }[] {
  const problems = columns.flatMap((column) => {
    const value = `${quoteIdentifier(column)}::VARCHAR`;
    return [
      { column, reason: 'U+0000 cannot be in the name of a folder', when: `contains(${value}, chr(0))` },
      { column, reason: `readers take the folder ${noValue} for NULL`, when: `${value} = ${sqlText(noValue)}` },
      {
        column,
        reason: `the folder's name would be longer than ${maxNameLength} bytes`,
        when: `${nameBytes(column)} > ${maxNameLength}`,
      },
    ];
  });
  const all = `${columns.map(nameBytes).join(' + ')} + ${columns.length} > ${maxNamesLength}`;
  const reason = `the names of its folders would be longer than ${maxNamesLength} bytes`;
  return [...problems, { column: columns.at(-1) ?? '', reason, when: all }];
}

/** SQL that is true for rows that no folder can take; undefined without `partition_by`. */
export function unfoldableSql(columns: readonly string[]): string | undefined {
  if (columns.length === 0) return undefined;
  return `coalesce(${refusals(columns)
    .map(({ when }) => when)
    .join(' OR ')}, false)`;
}

/** Sets aside the rows of a file that no folder can take. @param where SQL for the rows that will be written */
export async function withoutUnfoldable(
  file: DataFile,
  bench: Pick<SqlSession, 'rows'>,
  columns: readonly string[],
  where: string,
): Promise<DataFile> {
  const any = unfoldableSql(columns);
  if (any === undefined) return file;
  const all = refusals(columns);
  const which = all.map(({ when }, index) => `WHEN ${when} THEN ${index}`).join(' ');
  const refusedIn = async ({ path }: DataFile): Promise<RefusedValue[]> => {
    const rows = await bench.rows(`SELECT file_row_number + 1 AS row, CASE ${which} END AS why
      FROM read_parquet(${sqlText(filePattern(path))}, file_row_number = true) WHERE ${where} AND ${any} LIMIT ${maxAtOnce}`);
    return rows.map(({ row, why }) => {
      const { column, reason } = all[Number(why)] as { column: string; reason: string };
      return { row: Number(row), column, reason };
    });
  };
  // A row may have several such values, and a file more than are taken out at once.
  let left = file;
  for (let values = await refusedIn(left); values.length > 0; values = await refusedIn(left))
    left = await left.refuseAll(values);
  return left;
}
