import type { DestinationContext, LoadData, SqlRow, SqlSession } from '../../src/sdk/index.js';
import { type Catalog, cannot } from './catalogs.js';
import { openTrino, type TrinoSession } from './client.js';
import { trinoFailureName } from './client-error.js';
import { sourceOf } from './fence.js';
import { Inserts } from './inserts.js';
import type { trinoOptions } from './options.js';

/** A session by the options, and the names of its statements. */
export async function trinoSession(
  { options, job, destination }: DestinationContext<typeof trinoOptions>,
  more: Readonly<Record<string, string>> = {},
) {
  const { url, username, password, token, catalog, schema, session: properties, allowHttp } = options;
  const source = sourceOf([catalog, schema, job, destination]);
  const all = new Map([...Object.entries(more), ...Object.entries(properties)]);
  const login = { url, username, password, token, properties: all, source: source.own };
  return { trino: openTrino(login, allowHttp), source };
}

/** Statements of one catalog. Each is a transaction, so nothing is rolled back. */
export class Session implements SqlSession {
  readonly trino: TrinoSession;
  readonly #catalog: Catalog;
  readonly #statementChars: number;

  constructor(trino: TrinoSession, catalog: Catalog, statementChars: number) {
    this.trino = trino;
    this.#catalog = catalog;
    this.#statementChars = statementChars;
  }

  rows(sql: string): Promise<readonly SqlRow[]> {
    return this.trino.rows(sql);
  }

  async run(sql: string): Promise<number> {
    try {
      return (await this.trino.run(sql)).updateCount ?? 0;
    } catch (error) {
      throw trinoFailureName(error) === 'NOT_SUPPORTED' ? cannot(this.#catalog, sql, error) : error;
    }
  }

  async fill(target: string, data: LoadData): Promise<number> {
    const inserts = new Inserts(this.trino, target, data.columns, this.#statementChars);
    for await (const file of data.files()) await inserts.file(file);
    await inserts.flush();
    return this.trino.number(`SELECT count(*) AS n FROM ${target}`);
  }

  stop(): void {
    this.trino.stop();
  }

  async cleanUp(sql: string): Promise<number> {
    await this.trino.cleanUp(sql);
    return 0;
  }

  close(): Promise<void> {
    return this.trino.close();
  }
}
