import type { Connector } from '../src/sdk/index.js';
import bigquery from './bigquery/index.js';
import clickhouse from './clickhouse/index.js';
import duckdb from './duckdb/index.js';
import ducklake from './ducklake/index.js';
import eventStream from './event_stream/index.js';
import exportFiles from './export/index.js';
import files from './files/index.js';
import http from './http/index.js';
import iceberg from './iceberg/index.js';
import mysql from './mysql/index.js';
import postgres from './postgres/index.js';
import snowflake from './snowflake/index.js';
import trino from './trino/index.js';

/** The connectors that come with cdsync. Each loads its vendor's library only when it is opened. */
export const connectors: readonly Connector[] = [
  bigquery,
  clickhouse,
  duckdb,
  ducklake,
  eventStream,
  exportFiles,
  files,
  http,
  iceberg,
  mysql,
  postgres,
  snowflake,
  trino,
];
