import {
  choice,
  memoryOption,
  type OptionProblem,
  objectStoreOptions,
  objectStoreRules,
  option,
  path,
  text,
  whole,
  z,
} from '../../src/sdk/index.js';

export const filesOptions = {
  path: path({
    description: 'Folder of the files. cdsync makes it if it is missing. Each table is a folder in it.',
    example: './exports',
  }).optional(),
  url: option(z.string().regex(/^(s3|az):\/\/[a-z0-9][a-z0-9.-]+(\/[^\s?#]*)?$/), {
    description:
      'Bucket or container, and prefix, of the files, instead of `path`. `s3://` needs the packages @aws-sdk/client-s3 and @aws-sdk/lib-storage, `az://` @azure/storage-blob.',
    example: 's3://crm-exports/cdsync',
    allowed: 's3://bucket/prefix or az://container/prefix',
  }).optional(),
  format: choice(['parquet', 'csv', 'jsonl'], {
    description: 'Parquet (zstd), CSV with a header, or one JSON object a line.',
    example: 'csv',
  }).prefault('parquet'),
  csv_formulas: choice(['keep', 'escape'], {
    description:
      'Of CSV: whether text stays as it is (`keep`), or gets an apostrophe before it where a spreadsheet program would take it for a formula (`escape`). Use `escape` for files that people open in such a program.',
    example: 'escape',
  }).prefault('keep'),
  partition_by: option(
    z.array(text({ description: 'A column, under its name in the destination.', example: 'country' })),
    {
      description:
        'Columns whose values become folders such as `country=DE/`, as in Hive. The files then lack these columns.',
      example: ['country'],
      allowed: 'a list of columns',
    },
  ).prefault([]),
  keep: whole(0, 1000, {
    description: 'Older sets of files to keep, for readers that still have their manifest.',
    example: 3,
  }).prefault(1),
  file_mode: option(z.string().regex(/^0?[4-7][0-7]{2}$/), {
    description: 'Permissions of the files in a folder, as octal digits. Folders are as open as files.',
    example: '0640',
    allowed: 'octal permissions that let the owner read, such as "0600" or "0640"',
    verbatim: true,
  }).prefault('0600'),
  memory_mb: memoryOption('to join and write files', { least: 64, example: 1024 }),
  ...objectStoreOptions,
};

export type FilesShape = typeof filesOptions;

/** Rules between the options. */
export function checkFiles(value: unknown): OptionProblem[] {
  const options = value as Readonly<Record<string, unknown>>;
  const has = (key: string) => options[key] !== undefined;
  const findings: OptionProblem[] = [];
  const refuse = (where: string[], message: string) => findings.push({ path: where, message });
  if (has('path') === has('url')) refuse([], 'give exactly one of `path` and `url`: it says where the files go');
  if (has('csv_formulas') && options.format !== 'csv') refuse(['csv_formulas'], 'only `format: csv` has it');
  if (has('url') && has('file_mode')) refuse(['file_mode'], 'an object store has no file permissions');
  return [...findings, ...objectStoreRules(options)];
}
