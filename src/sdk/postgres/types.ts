import type { TypeTable, ValueLimits } from '../load.js';

const limits: ValueLimits = { nul: 'refused' };

/** Types are spelled as PostgreSQL's `format_type` spells them. */
export const postgresTypes: TypeTable = {
  boolean: 'boolean',
  int64: 'bigint',
  int128: 'numeric',
  decimal: ({ precision, scale }) => `numeric(${precision},${scale})`,
  double: 'double precision',
  text: { type: 'text', limits },
  timestamp: 'timestamp with time zone',
  date: 'date',
  json: { type: 'jsonb', as: 'JSON', limits },
};

/** Whether a person has given a column a type in which some values of the mapped type are too large or too long. */
export function isNarrower(actual: string, mapped: string): boolean {
  if (mapped === 'bigint') return actual === 'smallint' || actual === 'integer';
  if (mapped === 'text') return actual.startsWith('character varying(');
  return mapped.startsWith('numeric') && actual.startsWith('numeric(') && actual !== mapped;
}
