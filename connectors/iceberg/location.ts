import { alteredFile, type CdsyncError, isThisMachine, loadRefused, sqlText } from '../../src/sdk/index.js';
import type { TableMetadata } from './table-metadata.js';

/** Writers of one table may name its files in several ways. */
const alike: readonly (readonly [RegExp, string])[] = [
  [/^s3[an]:/, 's3:'],
  [/^file:\/*/, '/'],
];

function plain(path: string): string {
  return alike.reduce((text, [from, to]) => text.replace(from, to), path);
}

/**
 * The folder of a table's files, as the catalog gives it. They are read and written with the rights of this process, so a catalog of another
 * machine may name no folder of this one.
 * @throws {CdsyncError} `destination_refused`
 */
export function folderOf(
  { location }: TableMetadata,
  { catalog, warehouse = '' }: { readonly catalog: string; readonly warehouse?: string | undefined },
): string {
  const ended = (path: string) => plain(path).replace(/\/*$/, '/');
  const folder = typeof location === 'string' ? ended(location) : '';
  const isOurs = isThisMachine(new URL(catalog).hostname) || /^(file:\/)?\/.*[^/]/.test(warehouse);
  const isAllowed = folder.startsWith('/')
    ? isOurs && folder.startsWith(/^(file:\/)?\//.test(warehouse) ? ended(warehouse) : '/')
    : /^s3:\/\/[^/]+\//.test(folder);
  if (!isAllowed || /\/\.\.?\//.test(folder))
    throw loadRefused(`the catalog has a table at a place that cdsync does not use: ${location}`, {
      hint: 'tables are in S3; or in a folder, if the catalog is on this machine too, or `warehouse` names the folder',
    });
  return folder;
}

/** The statement that lets DuckDB use no files but those of folders, and its own. */
export function allowStatement(folders: readonly string[]): string {
  const all = folders.flatMap((folder) =>
    folder.startsWith('s3:') ? ['s3', 's3a', 's3n'].map((scheme) => folder.replace('s3', scheme)) : folder,
  );
  return `SET allowed_directories = [${all.map(sqlText).join(', ')}]`;
}

/** SQL of the condition that a path is not below a folder. */
export function isOutside(path: string, folder: string): string {
  const plainPath = alike.reduce((sql, [from, to]) => `regexp_replace(${sql}, ${sqlText(from.source)}, '${to}')`, path);
  return `NOT starts_with(${plainPath}, ${sqlText(folder)}) OR regexp_matches(${path}, '(^|/)[.][.](/|$)')`;
}

/** The error for metadata of a table that name files of another place. */
export function pathOutside(): CdsyncError {
  return alteredFile('the Iceberg table', 'a path that leads out of its location');
}
