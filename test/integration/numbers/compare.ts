import { join } from 'node:path';
import { expect } from 'vitest';
import type { JobReport, StreamReport } from '../../../src/core/run-report.js';
import { rowsOfFile } from '../../fixtures/duckdb-rows.js';
import type { Workspace } from '../../fixtures/workspace.js';
import { countIn, type Outputs, pageTable, textTable } from './outputs.js';
import { type Counts, countsOf, type People, recordsOf } from './population.js';

export const job = 'numbers';

export type StreamName = 'people' | 'orders' | 'gold';
export const counted = ['rows', 'inserted', 'updated', 'deleted', 'unchanged'] as const;

/** The expected result of a stream's run, by the independent count. */
export interface Expected extends Partial<Counts> {
  readonly status: 'ok' | 'held' | 'failed' | 'skipped';
  readonly rejected?: number;
  readonly duplicates?: number;
}

/** The model of the test: the rows that the service serves, and those that have been committed. */
export class Model {
  people: People = new Map();
  orders: People = new Map();
  readonly committed: Record<StreamName, People> = { people: new Map(), orders: new Map(), gold: new Map() };
  /** Counters of metrics, by series. */
  readonly counters = new Map<string, number>();
  sequence = 0;

  async serve(space: Workspace): Promise<void> {
    for (const index of ['people', 'orders'] as const)
      await space.control('profiles', { index, records: recordsOf(this[index], index) });
  }

  add(series: string, count: number): void {
    this.counters.set(series, (this.counters.get(series) ?? 0) + count);
  }

  /** Takes a person out of `people`: another snapshot, in which the erased row is no change. The query over it deletes its row later. */
  forget(id: string): void {
    this.sequence += 1;
    const without = (people: People): People => new Map([...people].filter(([key]) => key !== id));
    this.people = without(this.people);
    this.committed.people = without(this.committed.people);
  }

  /** Commits a stream. @returns its counts */
  commit(name: StreamName, after: People): Expected {
    const counts = countsOf(this.committed[name], after);
    this.committed[name] = after;
    for (const [operation, count] of Object.entries({
      insert: counts.inserted,
      update: counts.updated,
      delete: counts.deleted,
    }))
      this.add(`cdsync_stream_changes ${name} ${operation}`, count);
    return { status: 'ok', ...counts, rejected: 0 };
  }
}

/** Compares each output about a stream with the count. */
export function compareStream(
  outputs: Outputs,
  text: string,
  name: StreamName,
  expected: Expected,
  stored: number,
): void {
  const { report, page, message, prometheus, otlp, status } = outputs;
  const stream = report.streams.find((each) => each.name === name) as StreamReport;
  const hasCounts = expected.status === 'ok' || expected.status === 'held';
  const counts = hasCounts ? Object.fromEntries(counted.map((word) => [word, expected[word]])) : {};
  const about = `${name}: `;
  const reported = Object.fromEntries(counted.map((word) => [word, stream[word]]));
  expect({ status: stream.status, ...(hasCounts ? reported : {}) }, `${about}report`).toEqual({
    status: expected.status,
    ...counts,
  });
  expect(stream.rejected, `${about}rejected`).toBe(expected.rejected ?? 0);
  expect(stream.duplicates, `${about}duplicates`).toBe(expected.duplicates ?? 0);
  const line = textTable(text, 'stream').find((each) => each.stream === name);
  if (line !== undefined) {
    const said = Object.fromEntries(counted.map((word) => [word, countIn(line[word])]));
    expect({ status: line.status, ...(hasCounts ? said : {}) }, `${about}summary`).toEqual({
      status: expected.status,
      ...counts,
    });
  }
  const row = pageTable(page, 'Streams').find((each) => each.Stream === name);
  const title = (word: string) => `${word[0]?.toUpperCase()}${word.slice(1)}`;
  // The rows of a page are those that can be read now.
  expect([row?.Status, countIn(row?.Rows)], `${about}page`).toEqual([
    expected.status,
    stored === 0 ? undefined : stored,
  ]);
  for (const word of counted.slice(1))
    expect([word, countIn(row?.[title(word)])], `${about}page`).toEqual([word, hasCounts ? expected[word] : undefined]);
  expect(countIn(row?.Requests), `${about}page, requests`).toBe(stream.requests);
  const fresh = pageTable(page, 'Freshness').find((each) => each.Stream === name);
  expect(countIn(fresh?.Rows), `${about}page, freshness`).toBe(stored === 0 ? undefined : stored);
  const notified = message?.streams.find((each) => each.name === name);
  if (notified !== undefined)
    expect(notified, `${about}message`).toMatchObject({
      status: stream.status,
      rows: stream.rows,
      inserted: stream.inserted,
      updated: stream.updated,
      deleted: stream.deleted,
      rejected: stream.rejected,
    });
  for (const [output, figures] of Object.entries({ prometheus, otlp })) {
    if (figures.size === 0) continue;
    const state = ['ok', 'held', 'failed', 'skipped'].filter(
      (word) => figures.get(`cdsync_stream_status ${name} ${word}`) === 1,
    );
    expect(state, `${about}${output}`).toEqual([expected.status]);
    if (stored > 0) expect(figures.get(`cdsync_stream_rows ${name}`), `${about}${output}, rows`).toBe(stored);
  }
  const present = status.streams.find((each) => each.name === name);
  expect(present?.snapshot?.rows ?? 0, `${about}status`).toBe(stored);
  expect(countIn(textTable(outputs.statusText, 'stream').find((each) => each.stream === name)?.rows) ?? 0).toBe(stored);
  const held = present?.held ?? null;
  if (expected.status === 'held')
    expect(held, `${about}status, held`).toMatchObject({
      run_id: report.run_id,
      inserted: expected.inserted,
      updated: expected.updated,
      deleted: expected.deleted,
    });
  else expect(held, `${about}status, held`).toBeNull();
}

/** Runs in the published file: each once. */
async function runsInFile(space: Workspace): Promise<string[]> {
  const runs = (await space.query(job, 'select run_id from cdsync.runs')).map(({ run_id }) => String(run_id));
  expect(new Set(runs).size).toBe(runs.length);
  return runs;
}

/** Compares the published file with the count. */
export async function compareFile(
  space: Workspace,
  { report, isRun }: { readonly report: JobReport; readonly isRun: boolean },
  name: StreamName,
  expected: Expected,
  stored: People,
): Promise<void> {
  if (stored.size === 0) return;
  // A run that changes nothing publishes nothing: readers keep the file of the run before.
  // Queries over an approved stream are computed by a run of their own.
  const fresh = `(select run_id from cdsync.freshness where stream = '${name}')`;
  const run = name === 'gold' && !isRun ? fresh : `'${report.run_id}'`;
  const isPublished = expected.status === 'ok' && (await runsInFile(space)).includes(report.run_id);
  const about = `${name}: published file`;
  const [now] = await space.query(
    job,
    `select (from (select count(*)::int from ${name})) as rows, (from (select count(*)::int from ${name}_as_of(now()))) as as_of,
       (from (select count(*)::int from ${name}__history where _valid_to is null)) as history,
       (select rows::int from cdsync.freshness where stream = '${name}') as fresh,
       (select run_id from cdsync.freshness where stream = '${name}') as run_id,
       (select age >= interval 0 second from cdsync.freshness where stream = '${name}') as is_past`,
  );
  const rows = stored.size;
  expect(now, about).toMatchObject({ rows, as_of: rows, history: rows, fresh: rows, is_past: true });
  const done = await space.query(
    job,
    `select rows::int as rows, inserted::int as inserted, updated::int as updated, deleted::int as deleted, unchanged::int as unchanged,
       duplicates::int as duplicates, rejected::int as rejected
     from cdsync.streams where run_id = ${run} and stream = '${name}'`,
  );
  const { status: _, ...counts } = { duplicates: 0, rejected: 0, ...expected };
  expect(done, about).toEqual(isPublished ? [counts] : []);
  if (!isPublished) return;
  if (isRun) expect(now?.run_id, about).toBe(report.run_id);
  const rejects = `select count(*)::int as n from cdsync.rejects where run_id = ${run} and stream = '${name}'`;
  expect(await space.query(job, rejects), `${about}, rejects`).toEqual([{ n: expected.rejected ?? 0 }]);
}

/** Compares a destination with the stored rows, and with the record of its state. */
export async function compareDestinations(
  space: Workspace,
  outputs: Outputs,
  model: Model,
  text: string,
): Promise<void> {
  for (const { name, stream, status, rows } of outputs.report.destinations) {
    const known = outputs.status.destinations.find((each) => each.name === name && each.stream === stream);
    const row = pageTable(outputs.page, 'Destinations').find(
      (each) => each.Destination === name && each.Stream === stream,
    );
    expect([row?.['This run'], countIn(row?.Rows)], `${name} ${stream}: page`).toEqual([status, rows]);
    expect(countIn(row?.['Has snapshot']) ?? null, `${name} ${stream}: snapshot`).toBe(known?.sequence);
    const line = textTable(text, 'destination').find((each) => each.destination === name && each.stream === stream);
    if (line !== undefined) expect([line.status, countIn(line.rows)], `${name} ${stream}`).toEqual([status, rows]);
    const state = ['ok', 'partial', 'failed', 'skipped', 'not_tried'].filter(
      (word) => outputs.prometheus.get(`cdsync_destination_status ${name} ${stream} ${word}`) === 1,
    );
    expect(state, `${name} ${stream}: metrics`).toEqual([status]);
    if (known?.behind !== 0) continue;
    expect(row?.Lag, `${name} ${stream}: lag`).toBe('up to date');
    if (name !== 'copy') continue;
    const there = await rowsOfFile(join(space.folder, 'copy.duckdb'), `select count(*)::int as n from "${stream}"`);
    expect(there, `${name} ${stream}`).toEqual([{ n: model.committed[stream as StreamName].size }]);
  }
}
