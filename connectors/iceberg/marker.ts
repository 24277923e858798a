import type { Watermark } from '../../src/sdk/index.js';
import type { TableMetadata } from './table-metadata.js';

/**
 * What a load leaves in the table together with its rows: the watermark, and the id of the load. It stands in the properties of the
 * table, one property for each stream of a destination, and in the summary of the load's snapshot, where time travel finds it.
 */
export interface Marker {
  readonly watermark: Watermark;
  /** {@link Load.id}: the same for every attempt at the same rows. */
  readonly load: string;
}

const prefix = 'cdsync.watermark.';

/** The property of the table that holds a marker. Names of destinations and streams have no dots. */
export function propertyName({ destination, stream }: Pick<Watermark, 'destination' | 'stream'>): string {
  return `${prefix}${destination}.${stream}`;
}

/** The properties to set with a commit. */
export function markerProperties({ watermark, load }: Marker): Record<string, string> {
  const { destination, stream, table, storeId, sequence, definition, deliveredAt } = watermark;
  const value = {
    destination,
    stream,
    table,
    store_id: storeId,
    sequence,
    definition,
    delivered_at: deliveredAt,
    load,
  };
  return { [propertyName(watermark)]: JSON.stringify(value) };
}

/** The members of a snapshot's summary that say which snapshot of cdsync the table is as of it. */
export function markerSummary({ watermark, load }: Marker): Record<string, string> {
  return {
    'cdsync.destination': watermark.destination,
    'cdsync.stream': watermark.stream,
    'cdsync.store-id': watermark.storeId,
    'cdsync.sequence': String(watermark.sequence),
    'cdsync.delivered-at': watermark.deliveredAt,
    'cdsync.load': load,
  };
}

/** All markers of a table. A property that somebody has damaged counts as missing. */
export function markersOf(metadata: TableMetadata, table: string): Marker[] {
  const entries = Object.entries(metadata.properties ?? {}).filter(([name]) => name.startsWith(prefix));
  return entries.flatMap(([, value]) => {
    const marker = parsed(value, table);
    return marker === undefined ? [] : [marker];
  });
}

function parsed(text: string, table: string): Marker | undefined {
  try {
    const { destination, stream, store_id, sequence, definition, delivered_at, load } = JSON.parse(text);
    const texts = [destination, stream, store_id, definition, delivered_at, load];
    if (!texts.every((each) => typeof each === 'string') || !Number.isSafeInteger(sequence)) return undefined;
    // The name that the table has now: somebody may have renamed it.
    const watermark = {
      destination,
      stream,
      table,
      storeId: store_id,
      sequence,
      definition,
      deliveredAt: delivered_at,
    };
    return { watermark, load };
  } catch {
    return undefined;
  }
}
