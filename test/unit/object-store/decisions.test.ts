import { describe, expect, it } from 'vitest';
import { evaluateLease } from '../../../src/object-store/job-lease.js';
import { manifestOf } from '../../../src/object-store/public-objects.js';
import { graceMs, isCollectable } from '../../../src/object-store/remote-job.js';
import { isLocal, kindOf, neededBy } from '../../../src/object-store/required-files.js';
import { type Entry, filesOf, objectOf, readState, type State, type Work } from '../../../src/object-store/state.js';

const sha = (letter: string) => letter.repeat(64);
const file = (path: string, letter = 'a'): Entry => ({
  path,
  bytes: 1,
  sha256: sha(letter),
  changed_ms: 1,
  mode: 0o600,
});
const owner = { id: 'x', host: 'worker', boot_id: 'b', pid_space: '', pid: 7, started_at: '2026-11-01T00:00:00Z' };
const work = (change: Partial<Work> = {}): Work => ({
  version: 1,
  owner,
  released: false,
  is_put_back: false,
  silence_ms: 180_000,
  said: 0,
  base: 'c1',
  files: [],
  ...change,
});
const state = (change: Partial<State> = {}): State => ({
  version: 1,
  job: 'nightly',
  generation: 1,
  commit: 'c1',
  fence: 0,
  written_at: '',
  written_by: '',
  shown: {},
  collected_at: null,
  removal_owed: null,
  files: [],
  ...change,
});

describe('who may work on a job', () => {
  const situation = { work: work(), ageMs: 1_000, silenceMs: 180_000, isDead: false };

  it('is free if no one works, or the last one gave it back', () => {
    expect(evaluateLease({ ...situation, work: undefined })).toBe('free');
    expect(evaluateLease({ ...situation, work: work({ released: true }), ageMs: 1 })).toBe('free');
  });

  it('stays with its owner until that one was silent for as long as both say', () => {
    expect(evaluateLease(situation)).toBe('busy');
    expect(evaluateLease({ ...situation, ageMs: 180_000 })).toBe('busy');
    expect(evaluateLease({ ...situation, ageMs: 180_001 })).toBe('abandoned');
    expect(evaluateLease({ ...situation, ageMs: 180_001, silenceMs: 600_000 })).toBe('busy');
    expect(evaluateLease({ ...situation, ageMs: 20_000, silenceMs: 10_000 })).toBe('busy');
  });

  it('is taken at once from a process of this machine that has ended', () => {
    expect(evaluateLease({ ...situation, isDead: true })).toBe('abandoned');
  });

  it('is not taken if the store does not say how old the word is', () => {
    expect(evaluateLease({ ...situation, ageMs: undefined })).toBe('busy');
  });
});

describe('the files of a job', () => {
  const stored = state({ files: [file('.cdsync/store.duckdb'), file('.cdsync/runs/r1/run.json', 'b')] });

  it('are those of the state, with the checkpoint in place of its runs', () => {
    const found = filesOf(stored, work({ files: [file('.cdsync/runs/r2/run.json', 'c')] }));
    expect([...found.keys()]).toEqual(['.cdsync/store.duckdb', '.cdsync/runs/r2/run.json']);
  });

  it('leave out a checkpoint of another state', () => {
    const found = filesOf(stored, work({ base: 'c0', files: [file('.cdsync/runs/r2/run.json', 'c')] }));
    expect([...found.keys()]).toEqual(['.cdsync/store.duckdb', '.cdsync/runs/r1/run.json']);
  });

  it('are those of the checkpoint before the first state', () => {
    const found = filesOf(undefined, work({ base: null, files: [file('.cdsync/runs/r2/run.json')] }));
    expect([...found.keys()]).toEqual(['.cdsync/runs/r2/run.json']);
  });

  it('have the name of their content', () => {
    expect(objectOf('parquet/members/snapshot/r1/00001.parquet', sha('d'))).toBe(
      `parquet/members/files/${sha('d')}.parquet`,
    );
    expect(objectOf('parquet/members/manifest.json', sha('d'))).toBe(`objects/${sha('d')}`);
    expect(objectOf('.cdsync/store.duckdb', sha('d'))).toBe(objectOf('published/1/nightly.duckdb', sha('d')));
  });
});

describe('the choice of files for a command', () => {
  const parts = '.cdsync/runs/r1/streams/members/parts/1.parquet';
  const held = '.cdsync/runs/r1/streams/members/held.json';

  it('leaves out unread files: a run fetches neither Parquet nor published files, nor parts that a guard holds', () => {
    const needs = neededBy('run', new Set([held]));
    expect(needs('.cdsync/store.duckdb')).toBe(true);
    expect(needs('.cdsync/known/members/known.bin')).toBe(true);
    expect(needs('.cdsync/runs/r1/streams/vip/parts/1.parquet')).toBe(true);
    expect(needs(parts)).toBe(false);
    expect(needs('parquet/members/snapshot/r1/00001.parquet')).toBe(false);
    expect(needs('published/3/nightly.duckdb')).toBe(false);
    expect(needs('reports/r1.html')).toBe(false);
    expect(neededBy('decide', new Set([held]))(parts)).toBe(true);
    expect(neededBy('published', new Set())('published/3/nightly.duckdb')).toBe(true);
  });

  it('distinguishes the files of a stream called parquet or published from others', () => {
    expect(kindOf('parquet/snapshot/manifest.json')).toBe('small');
    expect(kindOf('parquet/published/snapshot/r1/00001.parquet')).toBe('rows');
    expect(kindOf('.cdsync/runs/r1/streams/known/journal.jsonl')).toBe('small');
  });

  it('leaves files of one machine, and temporary ones, on that machine', () => {
    for (const path of [
      '.cdsync/locks/job.duckdb',
      '.cdsync/queries/0123abcd/duckdb_temp_storage_DEFAULT-0.tmp',
      '.cdsync/.spill.0123abcd.tmp/duckdb_temp_storage_DEFAULT-0.tmp',
      '.cdsync/runs/r1/streams/members/staging/0.json',
      '.cdsync/deliveries/warehouse/lock.duckdb',
      '.cdsync/store.duckdb.wal',
      'reports/.index.html.0123abcd.tmp',
      'published/.3.0123abcd.tmp/nightly.duckdb',
    ])
      expect([path, isLocal(path)]).toEqual([path, true]);
    expect(isLocal('.cdsync/deliveries/warehouse/state.json')).toBe(false);
    expect(isLocal(parts)).toBe(false);
  });
});

describe('an object that is removed', () => {
  const rule = { needed: new Set([`objects/${sha('a')}`]), now: 10 * graceMs, graceMs };
  const old = { writtenAt: graceMs };

  it('is content that no state names, a day later', () => {
    expect(isCollectable({ object: `objects/${sha('b')}`, ...old }, rule)).toBe(true);
    expect(isCollectable({ object: `objects/${sha('b')}.z`, ...old }, rule)).toBe(true);
    expect(isCollectable({ object: `objects/${sha('a')}`, ...old }, rule)).toBe(false);
    expect(isCollectable({ object: `objects/${sha('b')}`, writtenAt: 9.5 * graceMs }, rule)).toBe(false);
  });

  it('is nothing that people read, and nothing of others', () => {
    for (const object of [
      'state.json',
      'nightly.duckdb',
      'parquet/members/manifest.json',
      'reports/r1.html',
      'objects/mine',
    ])
      expect([object, isCollectable({ object, ...old }, rule)]).toEqual([object, false]);
  });
});

describe('the manifest of a stream in a bucket', () => {
  it('names the files by their content, and those of the changes of each run', () => {
    const files = new Map(
      [file('parquet/members/changes/r1/00001.parquet', 'c'), file('parquet/vip/changes/r1/1.parquet', 'd')].map(
        (each) => [each.path, each],
      ),
    );
    const local = { version: 1, files: [{ path: 'snapshot/r1/00001.parquet', rows: 3, sha256: sha('e') }] };
    expect(JSON.parse(manifestOf(local, 'members', files))).toEqual({
      version: 1,
      files: [{ path: `files/${sha('e')}.parquet`, rows: 3, sha256: sha('e') }],
      changes: [{ run_id: 'r1', path: `files/${sha('c')}.parquet`, bytes: 1, sha256: sha('c') }],
    });
  });
});

const piece = { object: 'objects/x', bytes: 5 };
const entry = (change: object) => ({
  ...{ path: '.cdsync/format.json', bytes: 5, sha256: 'a'.repeat(64), changed_ms: 1, mode: 0o600 },
  ...change,
});

describe('a state that cannot be read', () => {
  const read = (text: string) => readState('s3://b/nightly/state.json', text, 'nightly');

  it('is named, or is of a newer cdsync', () => {
    expect(() => read('{"version":1}')).toThrow(/s3:\/\/b\/nightly\/state.json is not/);
    expect(() => read('torn')).toThrow(/is not a state/);
    expect(() => read('{"version":2}')).toThrow(/newer cdsync/);
  });

  it.each<[string, object]>([
    ['a job of another name', { job: 'other' }],
    ['a path out of the folder', { files: [entry({ path: '../x' })] }],
    ['a link that cdsync does not make', { files: [{ path: '.cdsync', link: 'published' }] }],
    ['a file in the place of a folder', { files: [entry({ path: 'reports' }), entry({ path: 'reports/x.json' })] }],
    ['one file twice', { files: [entry({}), entry({})] }],
    ['a length that is none', { files: [entry({ bytes: -1 })] }],
    ['a time that is none', { files: [entry({ changed_ms: 1e300 })] }],
    [
      'a range of an object that it does not name',
      { files: [entry({ pieces: { objects: [], ranges: [[0, 0, 5]] } })] },
    ],
    ['a range beyond its object', { files: [entry({ pieces: { objects: [piece], ranges: [[0, 1, 5]] } })] }],
    ['ranges of another length', { files: [entry({ pieces: { objects: [piece], ranges: [[0, 0, 4]] } })] }],
  ])('is one with %s', (_, change) => {
    const whole = { ...state(), job: 'nightly', files: [entry({ pieces: { objects: [piece], ranges: [[0, 0, 5]] } })] };
    expect(read(JSON.stringify(whole))).toMatchObject({ job: 'nightly' });
    expect(() => read(JSON.stringify({ ...whole, ...change }))).toThrow(/is not a state/);
  });
});
