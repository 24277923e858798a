import type { ColumnMapping, ColumnType } from '../../src/sdk/index.js';

/** Spelled as PostgreSQL's `format_type` does. */
export function mapColumn(type: ColumnType): ColumnMapping {
  switch (type.kind) {
    case 'boolean':
      return { type: 'boolean' };
    case 'int64':
      return { type: 'bigint' };
    case 'int128':
      return { type: 'numeric' };
    case 'decimal':
      return { type: `numeric(${type.precision},${type.scale})` };
    case 'double':
      return { type: 'double precision' };
    case 'text':
      return { type: 'text', limits: { nul: 'refused' } };
    case 'timestamp':
      return { type: 'timestamp with time zone' };
    case 'date':
      return { type: 'date' };
    case 'json':
    case 'list':
    case 'struct':
      return { type: 'jsonb', as: 'JSON', limits: { nul: 'refused' } };
  }
}

/** Integers become doubles only where the stream has seen none beyond 2^53. */
export function widens(from: string, to: string): boolean {
  return from === 'bigint' && (to === 'numeric' || to === 'double precision');
}
