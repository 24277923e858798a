import { CdsyncError } from '../../core/errors.js';
import type { Watermark } from '../../sdk/former/watermark.js';

/**
 * Finds the watermark of one stream of one destination among all that the target stores.
 * @param adopt takes the table over even if it belongs to another stream
 * @throws {CdsyncError} `table_taken` if another stream is delivered to the same table
 */
export function ownWatermark(
  all: readonly Watermark[],
  { destination, stream, table }: Pick<Watermark, 'destination' | 'stream' | 'table'>,
  adopt: boolean,
): Watermark | undefined {
  const own = all.find((each) => each.destination === destination && each.stream === stream);
  const other = all.find((each) => each !== own && each.table === table);
  if (other === undefined || adopt) return own;
  throw new CdsyncError(`table "${table}" belongs to stream "${other.stream}" of destination "${other.destination}"`, {
    code: 'table_taken',
    stream,
    hint: 'give the stream another table with `table:`, or take it over: cdsync push --adopt',
  });
}
