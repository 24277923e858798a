import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { streamOf, Workspace } from '../fixtures/workspace.js';

const profiles = 1200;
let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles });
});
afterAll(() => space.close());
afterEach(() => space.clearFaults());

const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members', page_size: 100 };
const pages = '/profiles';
let jobs = 0;

/** A new job for each test, so that none sees another's snapshot. */
async function job(stream: Record<string, unknown> = {}, service: Record<string, unknown> = {}): Promise<string> {
  jobs += 1;
  const name = `pages${jobs}`;
  await space.configure(name, [{ ...members, ...stream }], { service });
  return name;
}

async function runsWell(fault: Record<string, unknown>, stream: Record<string, unknown> = {}) {
  const name = await job(stream);
  await space.control('faults', { match: pages, ...fault });
  const report = streamOf(await space.runWell(name), 'members');
  const [{ rows } = {}] = await space.query(name, 'select count(distinct id)::int as rows from members');
  expect([report.rows, rows]).toEqual([profiles, profiles]);
  return report;
}

async function failsWith(fault: Record<string, unknown>, stream: Record<string, unknown> = {}) {
  const name = await job(stream);
  await space.control('faults', { match: pages, ...fault });
  const { code, report } = await space.run(name);
  return { exit: code, error: report.jobs[0]?.streams[0]?.error, name };
}

describe('every profile is read once', () => {
  it.each(['absent', 'empty', 'null'])('when the last page ends with its token %s', async (form) => {
    expect((await runsWell({ kind: 'end_form', form })).duplicates).toBe(0);
  });

  it.each([
    ['empty pages are in the middle', { kind: 'empty_pages', share: 0.3 }],
    ['pages are smaller than asked for', { kind: 'small_pages' }],
    ['attributes come as a list of one object', { kind: 'attributes_array' }],
    ['responses are compressed', { kind: 'gzip' }],
    ['totals are wrong', { kind: 'wrong_total' }],
    ['connections are reset', { kind: 'reset', count: 3 }],
    ['bodies are torn', { kind: 'torn', count: 3 }],
    ['bodies are half a JSON', { kind: 'half_json', count: 3 }],
    ['a response is no JSON', { kind: 'not_json', count: 2 }],
    ['the service is throttled', { kind: 'throttle', count: 3, retry_after: 0 }],
    ['the service is out of order for a moment', { kind: 'status', status: 503, count: 3 }],
  ])('when %s', async (_, fault) => {
    await runsWell(fault);
  });

  it('when a record is repeated on the next page: the last copy counts', async () => {
    const report = await runsWell({ kind: 'duplicate', share: 0.5 });
    expect(report.duplicates).toBeGreaterThan(0);
  });

  it('when page tokens die in the middle: the partition starts again', async () => {
    const report = await runsWell({ kind: 'dead_token', count: 1 });
    expect(report.requests).toBeGreaterThan(12);
  });

  it('when records are garbage: they are counted and listed, the others kept', async () => {
    const name = await job({ guards: { max_rejected: '1%' } });
    await space.control('faults', { match: pages, kind: 'garbage_record', count: 2 });
    const report = streamOf(await space.runWell(name), 'members');
    expect(report.rejected).toBeGreaterThan(0);
    expect(await space.query(name, 'select count(*)::int as rejects from cdsync.rejects')).toEqual([
      { rejects: report.rejected },
    ]);
  });

  it('when pages are larger than the service allows: it asks for smaller ones', async () => {
    const name = await job({ page_size: 4000 });
    expect(streamOf(await space.runWell(name), 'members').rows).toBe(profiles);
  });
});

describe('a stream fails, and says why', () => {
  it('when the service gives the same token again and again', async () => {
    expect(await failsWith({ kind: 'repeat_token' })).toMatchObject({ exit: 1, error: { code: 'page_loop' } });
  });

  it('when its tokens point to earlier pages', async () => {
    expect(await failsWith({ kind: 'loop' })).toMatchObject({ exit: 1, error: { code: 'page_loop' } });
  });

  it('when every token is dead', async () => {
    const { exit, error } = await failsWith({ kind: 'dead_token' });
    expect([exit, error?.code]).toEqual([1, 'dead_token']);
    expect(error?.hint).toContain('page_size');
  });

  it('when its total is above the number of records, also on a second reading, and the stream checks it', async () => {
    const { exit, error } = await failsWith({ kind: 'wrong_total' }, { check_total: true });
    expect([exit, error?.code]).toEqual([1, 'total_mismatch']);
  });

  it('when the service ignores the filter', async () => {
    const { exit, error } = await failsWith({ kind: 'ignore_filter' }, { filter: { tier: 'gold' } });
    expect([exit, error?.code]).toEqual([1, 'filter_ignored']);
    expect(error?.message).toContain('"tier"');
  });

  it('when the filter names an attribute that the index does not have', async () => {
    const { exit, error } = await failsWith({ kind: 'slow', delay_ms: 0 }, { filter: { tear: 'gold' } });
    expect([exit, error?.code]).toEqual([1, 'bad_request']);
    expect(error?.message).toContain('tear');
  });

  it('when the index is unknown, with the nearest names', async () => {
    const { exit, error } = await failsWith({ kind: 'slow', delay_ms: 0 }, { index: 'loyalty_member' });
    expect([exit, error?.code]).toEqual([1, 'index_not_found']);
    expect(error?.hint).toContain('loyalty_members');
  });

  it('when the service stays out of order, and the next run resumes', async () => {
    const name = await job({ page_size: 50 }, { retry: { patience: '1s', max_delay_ms: 20 } });
    await space.control('faults', { match: 'next_token', kind: 'status', status: 503, share: 1 });
    const { code, report } = await space.run(name);
    expect([code, report.jobs[0]?.streams[0]?.error?.code]).toEqual([1, 'service_unavailable']);
    await space.clearFaults();
    expect(await space.runWell(name)).toMatchObject({ resumed: true, status: 'ok' });
  });

  it.each([
    ['the token is wrong', { auth: { token: 'eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl' } }, 'unauthorized'],
    ['the client secret is wrong', { auth: { client_id: 'absent', client_secret: 'wrong-secret' } }, 'oauth_failed'],
    ['the tenant is another one', { tenant_id: 'another-tenant' }, undefined],
  ])('with exit code 4 and the request id when %s', async (_, service, code) => {
    const name = await job({}, service);
    const { code: exit, report, stderr, stdout } = await space.run(name);
    const error = report.jobs[0]?.streams[0]?.error;
    expect(exit).toBe(4);
    if (code !== undefined) expect(error?.code).toBe(code);
    expect(error?.request_id).toBeTruthy();
    expect(stderr + stdout).not.toContain('wrong-secret');
  });

  it('with exit code 4 when a permission is missing, which it names', async () => {
    const { exit, error } = await failsWith({ kind: 'missing_permission' });
    expect([exit, error?.code]).toEqual([4, 'forbidden']);
    expect(error?.request_id).toBeTruthy();
  });

  it('with exit code 5 when another stream could be read', async () => {
    await space.configure('both', [members, { ...members, name: 'broken', index: 'nothing_like_it' }]);
    const { code, report } = await space.run('both');
    expect(code).toBe(5);
    expect(report).toMatchObject({ status: 'partial', jobs: [{ streams: [{ status: 'ok' }, { status: 'failed' }] }] });
    expect((await space.query('both', 'from members')).length).toBe(profiles);
  });
});
