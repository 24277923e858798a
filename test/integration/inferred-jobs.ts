import { expect } from 'vitest';
import { ColumnSet } from '../../src/columns/columns.js';
import { quoteIdentifier } from '../../src/core/sql.js';
import { streamOf, type Workspace } from '../fixtures/workspace.js';

export type Attributes = Record<string, unknown>;
export type Row = Record<string, unknown>;

/** No guard holds a run. */
export const openGuards = { max_deleted: '100%', max_changed: '100%', max_rejected: '100%', min_rows: 0 };

/** Jobs of one stream `made`, which tests give records to; `space` is there once the tests begin. */
export function inferredJobs(space: () => Workspace) {
  let jobs = 0;

  async function serve(records: Record<string, Attributes>): Promise<void> {
    const texts = Object.entries(records).map(([id, attributes]) =>
      JSON.stringify({ id, index_id: 'made', attributes }),
    );
    await space().control('profiles', { index: 'made', records: texts });
  }

  /** Writes a job; the same name again is the same job with other options. */
  async function configure(stream: object, { name = `inferred${++jobs}`, job = {}, more = [] as Row[] } = {}) {
    const made = { name: 'made', source: 'index_profiles', index: 'made', page_size: 2, ...stream };
    await space().configure(name, [made, ...more], { job: { guards: openGuards, ...job } });
    return name;
  }

  async function counts(job: string, words: readonly string[] = []) {
    const { inserted, updated, deleted, unchanged } = streamOf(await space().runWell(job, words), 'made');
    return { inserted, updated, deleted, unchanged };
  }

  async function types(job: string, table = 'made'): Promise<Row> {
    const rows = await space().query(job, `select column_name as name, column_type as type from (describe "${table}")`);
    return Object.fromEntries(rows.map(({ name, type }) => [String(name), type]));
  }

  /** The rows of a table with every value as the text that was sent. */
  async function textsOf(job: string, source: string): Promise<Row[]> {
    const [row] = await space().query(job, "select state from private.streams where stream = 'made'");
    const { columns } = JSON.parse(String(row?.state));
    const values = ColumnSet.restore(columns).list.map(({ name, form }) => {
      const value = quoteIdentifier(name);
      return `${form === undefined ? value : form.text(value)} AS ${value}`;
    });
    return space().query(job, `select ${values.join(', ')} from ${source} order by id`);
  }

  async function verified(job: string): Promise<void> {
    const { code, stdout, stderr } = await space().cdsync(['verify', `${job}.json`]);
    expect([code, stdout, stderr]).toEqual([0, stdout, stderr]);
  }

  return { serve, configure, counts, types, textsOf, verified };
}
