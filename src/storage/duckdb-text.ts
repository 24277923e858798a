import accessors from '@duckdb/node-api/lib/vectors/dataAccessors.js';

/**
 * DuckDB's client decodes each text with a decoder that takes a first U+FEFF for a mark and drops it: another key, name or value
 * than the stored one. This module gives it one that keeps every character; whoever reads from DuckDB imports `duckdb.ts`, and that
 * imports this.
 */
Object.assign(accessors, { textDecoder: new TextDecoder('utf-8', { ignoreBOM: true }) });
