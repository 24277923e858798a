import { describe, expect, test } from 'vitest';
import type { StreamConfig } from '../../../src/config/config.js';
import { folder, head, members, parse, problemsOf, withStream } from './sample.js';

const open = '$\u007b';

type IndexProfilesStream = Extract<StreamConfig, { source: 'index_profiles' }>;

function profilesStream(text: string, env: Record<string, string> = {}): IndexProfilesStream {
  const stream = parse(text, env).jobs[0]?.streams[0];
  if (stream?.source !== 'index_profiles') throw new Error('the sample has another source');
  return stream;
}

describe('filter, id and partition values keep their source text', () => {
  const written = [
    '02134',
    '1.50',
    'yes',
    'true',
    '0x10',
    '2026-01-01',
    '1e3',
    '.inf',
    '1_000',
    'NULL!',
    '+1',
    '12:30:00',
  ];

  test.each(written)('%s, without quotes and with', (value) => {
    for (const yaml of [value, `"${value}"`, `'${value}'`]) {
      const text = withStream(
        'source: index_profiles',
        `index: ${yaml}`,
        `filter: { zip: ${yaml} }`,
        `partition_by: { attribute: ${yaml}, values: [${yaml}] }`,
      );
      expect(profilesStream(text)).toMatchObject({
        index: value,
        filter: { zip: value },
        partitionBy: { attribute: value, values: [value] },
      });
    }
  });

  test.each([...written, 'null', '~', '"quoted"', "'x'", '', ' a ', '[x]'])('%j, from a variable', (value) => {
    const stream = profilesStream(withStream(...members, `filter: { zip: "${open}ZIP}" }`), { ZIP: value });
    expect(stream.filter).toEqual({ zip: value });
  });

  test('null, ~ and nothing are text only in quotes', () => {
    expect(profilesStream(withStream(...members, 'filter: { a: "null", b: "~", c: "" }')).filter).toEqual({
      a: 'null',
      b: '~',
      c: '',
    });
    expect(problemsOf(withStream(...members, 'filter: { a: null, b: ~, c: }'))).toHaveLength(3);
  });

  test('attributes may be called anything', () => {
    const text = withStream(...members, 'filter: { First Name: a, constructor: b, 1: c, true: d, "<<": e, a.b: f }');
    expect(profilesStream(text).filter).toEqual({
      'First Name': 'a',
      constructor: 'b',
      1: 'c',
      true: 'd',
      '<<': 'e',
      'a.b': 'f',
    });
  });
});

const guards = {
  action: 'hold',
  minRows: undefined,
  maxDeleted: { share: 0.1, atLeast: 10 },
  maxChanged: { share: 0.5, atLeast: 10 },
  maxRejected: { count: 0 },
  maxNull: {},
  unique: [],
  expect: [],
};

test('a small configuration gets every default', () => {
  expect(parse(withStream(...members))).toEqual({
    file: `${folder}/cdsync.yaml`,
    version: 1,
    storage: `${folder}/data`,
    resources: { memoryMb: 768, threads: 2 },
    patienceMs: 300_000,
    service: {
      baseUrl: 'http://127.0.0.1:8787',
      allowHttp: false,
      tenantId: 'acme',
      tenantHeader: 'service-tenant',
      oauthTenantHeader: 'X-Service-Tenant',
      auth: { type: 'token_file', path: `${folder}/token` },
      apiVersions: { profile: '2025-07-31', management: '2024-04-01', campaignDrafts: '2024-04-01' },
      rateLimits: { profile: 2000, management: 10, realtime: 200 },
      pageSize: 500,
      timeoutsMs: { connect: 10_000, firstByte: 60_000, body: 120_000, total: 600_000 },
      retry: { patienceMs: 300000, maxDelayMs: 30_000 },
      budget: { shared: 'machine' },
    },
    jobs: [
      {
        name: 'a',
        streams: [
          {
            name: 'members',
            source: 'index_profiles',
            index: 'loyalty_members',
            filter: {},
            checkTotal: false,
            columns: {},
            confirmDeletes: 10_000,
            contract: { columns: 'evolve', types: 'evolve' },
            guards,
            reads: expect.anything(),
            strings: 'keep',
          },
        ],
        resumeWithinMs: 43_200_000,
        parquet: { enabled: true, compression: 'zstd' },
        publish: { duckdb: true, mode: 0o400, history: 35 * 86_400_000 },
        keep: { snapshots: 3, changes: 90 * 86_400_000 },
        recognition: { enabled: true, verifyEvery: 30 * 86_400_000 },
        before: [],
        after: [],
        notify: [],
        metrics: { textfile: undefined },
        guardScope: 'stream',
        newStorage: 'hold',
        destinations: [],
      },
    ],
    secrets: [],
    secretVariables: ['OTEL_EXPORTER_OTLP_HEADERS'],
    jobSummaries: [{ name: 'a', streams: [{ name: 'members', source: 'index_profiles' }], destinations: [] }],
    warnings: [],
  });
});

test('a workflow before a run has its options and their defaults', () => {
  const before = (written: string) => parse(`${withStream(...members)}    before: ${written}\n`).jobs[0]?.before;
  expect(before('[ { start_workflow: { config_id: 0017 } } ]')).toEqual([
    { startWorkflow: { configId: '0017', deadlineMs: 86_400_000 } },
  ]);
  const all =
    '{ config_id: cg-1, run_mode: source, range_from: 2026-01-01, range_to: 2026-02-01T12:30+02:00, deadline_ms: 60000 }';
  expect(before(`[ { start_workflow: ${all} } ]`)).toEqual([
    {
      startWorkflow: {
        configId: 'cg-1',
        runMode: 'source',
        rangeFrom: '2026-01-01T00:00:00.000Z',
        rangeTo: '2026-02-01T10:30:00.000Z',
        deadlineMs: 60_000,
      },
    },
  ]);
  expect(() => before('[]')).toThrow('must be a list of at least one step');
  expect(() => before('[ {} ]')).toThrow('start_workflow: missing');
  expect(() => before('[ { start_workflow: { config_id: cg-1, run_mode: half } } ]')).toThrow('source, refresh, full');
  expect(before('[ { start_workflow: { config_id: cg-1, range_from: 2026-01-01 } } ]')).toMatchObject([
    { startWorkflow: { rangeFrom: '2026-01-01T00:00:00.000Z' } },
  ]);
  const half = 'range_from is missing: range_to is only its end';
  expect(() => before('[ { start_workflow: { config_id: cg-1, range_to: 2026-01-01 } } ]')).toThrow(half);
  expect(() =>
    before('[ { start_workflow: { config_id: cg-1, range_from: January, range_to: 2026-02-01 } } ]'),
  ).toThrow('a date or a time, such as');
});

test('reads both forms of credentials', () => {
  const auth = (written: string) =>
    parse(head.replace('token_file: ./token', written), {}, { jobs: false }).service.auth;
  const credentials = auth('client_id: me, client_secret: hush');
  expect(credentials.type === 'client_credentials' && credentials.clientId).toBe('me');
  expect(credentials.type === 'client_credentials' && credentials.clientSecret.reveal()).toBe('hush');
  expect(auth('token_file: /run/token')).toEqual({ type: 'token_file', path: '/run/token' });
});

test.each(['0640', '"0640"', '640', '0o640'])('publish.mode %s is octal', (mode) => {
  const text = `${withStream(...members)}    publish: { mode: ${mode} }\n`;
  expect(parse(text).jobs[0]?.publish.mode).toBe(0o640);
});

test.each(['99999w', '99999d', '999999999s', '999999999999ms'])('before a duration of %s is a date', (long) => {
  const text = `${withStream(...members)}    publish: { history: ${long} }\n    resume_within: ${long}\n`;
  const { publish, resumeWithinMs = 0 } = parse(text).jobs[0] ?? {};
  for (const ms of [publish?.history ?? 0, resumeWithinMs])
    expect(new Date(Date.now() - ms).toISOString()).toMatch(/^\d{4}-/);
});

test.each(['100000d', '999999999w', `${'9'.repeat(400)}ms`])('a duration of %s is refused, not shortened', (long) => {
  const text = `${withStream(...members)}    publish: { history: ${long} }\n`;
  expect(() => parse(text)).toThrow(/publish\.history: must be a duration: .*99999d at most/);
});

describe('defaults', () => {
  const job = (defaults: string, own: string) => parse(`${head}defaults: ${defaults}\njobs:\n  a: ${own}\n`).jobs[0];

  test('are merged into a job key by key, and the job wins', () => {
    const merged = job(
      '{ parquet: { enabled: false, compression: gzip }, resume_within: 1h }',
      '{ parquet: { compression: none }, streams: [{ name: s, source: indexes }] }',
    );
    expect(merged).toMatchObject({ parquet: { enabled: false, compression: 'none' }, resumeWithinMs: 3_600_000 });
  });

  test('may contain the streams; a list of the job replaces them', () => {
    const streams = '{ streams: [{ name: s, source: indexes }, { name: t, source: indexes }] }';
    expect(job(streams, '{}')?.streams.map(({ name }) => name)).toEqual(['s', 't']);
    expect(job(streams, '{ streams: [{ name: u, source: indexes }] }')?.streams.map(({ name }) => name)).toEqual(['u']);
  });

  test('a stream may be empty where it, its job or the defaults say so', () => {
    const streams = 'streams: [{ name: s, source: indexes }]';
    expect(job('{}', `{ ${streams} }`)?.streams[0]).toEqual({
      name: 's',
      source: 'indexes',
      guards,
      columns: {},
      contract: { columns: 'evolve', types: 'evolve' },
      reads: expect.anything(),
      strings: 'keep',
    });
    expect(job('{}', `{ ${streams}, guards: { min_rows: 0 } }`)?.streams[0]?.guards.minRows).toBe(0);
    expect(job('{ guards: { min_rows: 0 } }', `{ ${streams} }`)?.streams[0]?.guards.minRows).toBe(0);
    const own = 'streams: [{ name: s, source: indexes, guards: { min_rows: 0 } }, { name: t, source: indexes }]';
    expect(job('{}', `{ ${own} }`)?.streams.map(({ guards }) => guards.minRows)).toEqual([0, undefined]);
  });
});

describe('a limit without a unit', () => {
  const guarded = (written: string) => parse(withStream(...members, `guards: ${written}`));

  test('is a number of rows, and a warning says so', () => {
    const { jobs, warnings } = guarded('{ max_deleted: 5, max_null: { email: 100 } }');
    expect(jobs[0]?.streams[0]?.guards).toMatchObject({ maxDeleted: { count: 5 }, maxNull: { email: { count: 100 } } });
    expect(warnings).toEqual([
      'cdsync.yaml:13:32  jobs.a.streams[0].guards.max_deleted: 5 means 5 rows: write 5% for a share, "5 rows" for the number',
      'cdsync.yaml:13:54  jobs.a.streams[0].guards.max_null.email: 100 means 100 rows: write 100% for a share, "100 rows" for the number',
    ]);
    const job = `${head}jobs: { a: { guards: { max_changed: 7 }, streams: [{ name: s, source: indexes }] } }\n`;
    expect(parse(job).warnings).toEqual([expect.stringContaining('jobs.a.guards.max_changed: 7 means 7 rows')]);
  });

  test.each(['5 rows', '1 row', '5%', 'off', '0', '500'])('is none: %s', (limit) => {
    const { jobs, warnings } = guarded(`{ max_deleted: ${limit} }`);
    expect(warnings).toEqual([]);
    if (limit === '5 rows') expect(jobs[0]?.streams[0]?.guards.maxDeleted).toEqual({ count: 5 });
  });
});

describe('warnings', () => {
  const warnings = (url: string) => parse(head.replace('http://127.0.0.1:8787', url), {}, { jobs: false }).warnings;

  test.each(['http://localhost:1', 'http://127.1.2.3', 'http://[::1]:80', 'https://cds.example', 'http://x.localhost'])(
    'none for %s',
    (url) => expect(warnings(url)).toEqual([]),
  );

  test.each(['http://cds.example', 'http://127.0.0.1.example', 'http://10.0.0.1'])(
    '%s can be read on the way, and needs a permission',
    (url) => {
      const text = head.replace('http://127.0.0.1:8787', url);
      expect(() => parse(text, {}, { jobs: false })).toThrow(
        'cdsync.yaml:3:13  service.base_url: plain http to another machine: tokens and profiles can be read on the way; use https://, or allow it with allow_http: true',
      );
      const allowed = text.replace(/^( *)base_url:/m, '$1allow_http: true\n$1base_url:');
      expect(parse(allowed, {}, { jobs: false }).warnings).toEqual([]);
    },
  );
});
