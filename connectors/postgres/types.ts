import type { ColumnMapping, ColumnType } from '../../src/sdk/index.js';

/** Types are spelled as PostgreSQL's `format_type` spells them. */
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
