import type { Connector } from '../src/sdk/index.js';

type Loader = () => Promise<{ readonly default: Connector }>;

/**
 * The connectors that come with cdsync, by name. A command loads those that its configuration names; each of them loads its vendor's
 * library only when it is opened.
 */
export const builtIn: Readonly<Record<string, Loader>> = {
  bigquery: () => import('./bigquery/index.js'),
  clickhouse: () => import('./clickhouse/index.js'),
  duckdb: () => import('./duckdb/index.js'),
  ducklake: () => import('./ducklake/index.js'),
  event_stream: () => import('./event_stream/index.js'),
  export: () => import('./export/index.js'),
  files: () => import('./files/index.js'),
  http: () => import('./http/index.js'),
  iceberg: () => import('./iceberg/index.js'),
  mysql: () => import('./mysql/index.js'),
  postgres: () => import('./postgres/index.js'),
  snowflake: () => import('./snowflake/index.js'),
  trino: () => import('./trino/index.js'),
};
