import { dirname } from 'node:path';
import {
  type DestinationCheck,
  type DestinationContext,
  describeTables,
  isThere,
  type Lack,
  mayWrite,
  nearestExisting,
} from '../../src/sdk/index.js';
import { openDuckdb } from './load.js';
import type { duckdbOptions } from './options.js';

/** Opens the file if there is one, as a load does; otherwise looks whether its folder may be written. */
export async function checkDuckdb(
  context: DestinationContext<typeof duckdbOptions>,
  tables: readonly string[],
): Promise<DestinationCheck> {
  const { path, schema } = context.options;
  const lacks: Lack[] = [];
  const folder = await nearestExisting(dirname(path));
  if (!(await mayWrite(folder)))
    lacks.push({ message: `the folder ${folder} may not be written`, hint: 'check who owns it, and run as that user' });
  if (!(await isThere(path))) return { reached: `${path}, which the first load creates`, lacks };
  if (!(await mayWrite(path))) {
    const hint = 'check who owns it, and run as that user';
    return { reached: path, lacks: [...lacks, { message: `${path} may not be written`, hint }] };
  }
  if (lacks.length > 0) return { reached: path, lacks };
  await describeTables(openDuckdb(context), tables);
  return { reached: `${path}, schema ${schema}`, lacks };
}
