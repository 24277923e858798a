import { dirname } from 'node:path';
import {
  type DestinationCheck,
  type DestinationContext,
  describeTables,
  isThere,
  unwritable,
} from '../../src/sdk/index.js';
import { openDuckdb } from './load.js';
import type { duckdbOptions } from './options.js';

/** Opens the file if there is one, as a load does; otherwise looks whether its folder may be written. */
export async function checkDuckdb(
  context: DestinationContext<typeof duckdbOptions>,
  tables: readonly string[],
): Promise<DestinationCheck> {
  const { path, schema } = context.options;
  const lacks = await unwritable([dirname(path), path]);
  if (!(await isThere(path))) return { reached: `${path}, which the first load creates`, lacks };
  if (lacks.length > 0) return { reached: path, lacks };
  await describeTables(openDuckdb(context), tables);
  return { reached: `${path}, schema ${schema}`, lacks };
}
