import { describe, expect, test } from 'vitest';
import { head, parse, problemsOf, withStream } from './sample.js';

describe('streams of every source', () => {
  const cases: [string, string[], string][] = [
    ['a time that is none', ['source: audit_events', 'since: soon'], 'since: must be a date or a time of the past'],
    ['a day that no calendar has', ['source: audit_events', 'since: 2026-13-01'], 'since: must be a date or a time'],
    ['a time to come', ['source: audit_events', 'since: 2999-01-01'], 'since: this time is in the future'],
    ['a lag that is none', ['source: ingest_jobs', 'lag_ms: -1'], 'lag_ms: must be a whole number from 0'],
    ['no ids', ['source: profiles', 'index: a'], 'ids: missing'],
    [
      'ids in one word',
      ['source: profiles', 'index: a', 'ids: p1'],
      'ids: must be a list of ids, or a map with file: or sql:',
    ],
    [
      'ids from two places',
      ['source: profiles', 'index: a', 'ids: { file: a, sql: b }'],
      'ids: use only one of these forms',
    ],
    ['neither ids nor keys', ['source: realtime_profiles', 'collection: c'], 'give either ids or keys'],
    [
      'both ids and keys',
      ['source: realtime_profiles', 'collection: c', 'ids: [a]', 'keys: [{ email: x }]'],
      'keys: give either ids or keys',
    ],
    ['a key without a name', ['source: realtime_profiles', 'collection: c', 'keys: [{}]'], 'keys[0]: names no key'],
    ['a query without a key', ['source: sql', 'query: select 1'], 'key: missing'],
    ['a scale that is none', ['source: collection_history', 'collection: c', 'scale: week'], 'scale: unknown value'],
  ];

  test.each(cases)('%s', (_, lines, message) => {
    const problems = problemsOf(withStream(...lines));
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain(message);
  });

  test('ids keep their text, and paths of files are relative to the configuration', () => {
    const ids = (list: string) => {
      const [stream] = parse(withStream('source: profiles', 'index: a', `ids: ${list}`)).jobs[0]?.streams ?? [];
      return stream?.source === 'profiles' ? stream.ids : undefined;
    };
    expect(ids('[02134, 1.50, yes]')).toEqual(['02134', '1.50', 'yes']);
    expect(ids('{ file: lists/ids.csv }')).toEqual({ file: expect.stringMatching(/^\/.*\/lists\/ids\.csv$/) });
  });
});

describe('jobs and their streams', () => {
  test('are asked for where a command needs them', () => {
    expect(problemsOf(head)).toEqual(['cdsync.yaml:1:1  jobs: missing; allowed: a map of at least one job']);
    expect(problemsOf(`${head}jobs: {}\n`)).toEqual([
      'cdsync.yaml:7:7  jobs: missing; allowed: a map of at least one job',
    ]);
    expect(problemsOf(head, {}, { jobs: false })).toEqual([]);
  });

  test('a job needs a stream', () => {
    const allowed = 'allowed: a list of at least one stream';
    expect(problemsOf(`${head}jobs:\n  ab: { streams: 5 }\n  a: { parquet: {} }\n`)).toEqual([
      'cdsync.yaml:8:18  jobs.ab.streams: must be a list, found a number; allowed: entries in […], or each after "- "',
      `cdsync.yaml:9:6  jobs.a.streams: missing; ${allowed}`,
    ]);
    expect(problemsOf(`${head}jobs: { a: { streams: [] } }\n`)).toEqual([
      'cdsync.yaml:7:23  jobs.a.streams: must be a list of at least one stream, found an empty list',
    ]);
  });
});
