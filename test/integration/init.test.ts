import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { conversation, hasTerminals } from '../fixtures/conversation.js';
import { type Ended, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 400 });
});
afterAll(() => space.close());
const file = () => join(space.folder, 'cdsync.yaml');
beforeEach(() => rm(file(), { force: true }));
afterEach(() => space.clearFaults());

function service(): string[] {
  return ['--base-url', space.service.url, '--tenant-id', space.service.tenantId];
}

async function init(words: readonly string[], env: Record<string, string> = {}): Promise<Ended> {
  return space.cdsync(['init', ...service(), ...words], env);
}

async function written(): Promise<string | undefined> {
  return readFile(file(), 'utf8').catch(() => undefined);
}

async function streamsRead(): Promise<string[]> {
  const { stdout } = await space.cdsync(['check', '--json']);
  return (JSON.parse(stdout) as { streams: { name: string }[] }).streams.map(({ name }) => name);
}

describe('cdsync init without a terminal', () => {
  it('writes a configuration that is checked and run as it is', async () => {
    const { code, stdout, stderr } = await init(['--yes']);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout.trimEnd().split('\n').slice(-3)).toEqual([
      'next: cdsync check',
      'then: cdsync plan',
      'then: cdsync run',
    ]);
    expect((await space.cdsync(['check'])).code).toBe(0);
    const run = await space.cdsync(['run', '--json', '--quiet']);
    const { jobs } = JSON.parse(run.stdout) as { jobs: { job: string; streams: { name: string; rows: number }[] }[] };
    expect(jobs[0]?.job).toBe('nightly');
    expect(jobs[0]?.streams.map(({ name, rows }) => [name, rows > 0])).toEqual([
      ['loyalty_members', true],
      ['newsletter_subscribers', true],
      ['store_visitors', true],
    ]);
  });

  it('keeps every secret out of the file, which all may read', async () => {
    await init(['--yes']);
    expect(await written()).not.toContain(space.service.token);
    expect(((await stat(file())).mode & 0o777).toString(8)).toBe('644');
  });

  it('logs in with OAuth or a file if asked to', async () => {
    const { clientId, clientSecret, token } = space.service;
    const oauth = { CDS_TOKEN: '', CDS_CLIENT_ID: clientId, CDS_CLIENT_SECRET: clientSecret };
    expect((await init(['--yes'], oauth)).code).toBe(0);
    expect((await space.cdsync(['check'], oauth)).code).toBe(0);
    await mkdir(join(space.folder, 'jobs'), { recursive: true });
    await writeFile(join(space.folder, 'a token'), token);
    const words = ['jobs/members.yaml', '--token-file', 'a token', '--storage', 'store', '--job', 'members', '--yes'];
    const { code, stdout } = await init(words, { CDS_TOKEN: '' });
    expect([code, stdout]).toEqual([0, expect.stringContaining('then: cdsync run jobs/members.yaml')]);
    expect((await space.cdsync(['run', 'jobs/members.yaml'], { CDS_TOKEN: '' })).code).toBe(0);
    expect((await stat(join(space.folder, 'store', 'members'))).isDirectory()).toBe(true);
  });

  it('prefers the login that does not expire, and says so', async () => {
    const { clientId, clientSecret } = space.service;
    const both = { CDS_TOKEN: 'a-token-of-yesterday-000000', CDS_CLIENT_ID: clientId, CDS_CLIENT_SECRET: clientSecret };
    const { code, stderr } = await init(['--yes'], both);
    expect([code, stderr]).toEqual([0, expect.stringContaining('not CDS_TOKEN, which expires')]);
    expect(await written()).toContain('client_id: ${CDS_CLIENT_ID}');
  });

  it('takes the service from the environment variables that replace the flags', async () => {
    const env = { CDS_BASE_URL: `${space.service.url}/`, CDS_TENANT_ID: 'acme' };
    expect((await space.cdsync(['init', '--yes'], env)).code).toBe(0);
    expect(await written()).toContain(`base_url: ${space.service.url}\n`);
  });

  it('reads the indexes that were named, by id or name, and shows the others as comments', async () => {
    const listed = await space.cdsync(['discover', ...service(), '--json', '--sample', '1']);
    const { indexes } = JSON.parse(listed.stdout) as { indexes: { id: string; name: string }[] };
    const id = indexes.find(({ name }) => name === 'store_visitors')?.id as string;
    const { code, stdout } = await init(['--index', id, '--json', '--index', 'loyalty_members', 'cdsync.yaml']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      status: 'ok',
      file: 'cdsync.yaml',
      job: 'nightly',
      next: ['cdsync check', 'cdsync plan', 'cdsync run'],
    });
    expect(await streamsRead()).toEqual(['store_visitors', 'loyalty_members']);
    expect(await written()).toContain('# - { name: newsletter_subscribers, ');
  });

  it('reads the members of a segment that was named', async () => {
    const { code, stderr } = await init(['--segment', 'seg-vip', '--index', 'store_visitors']);
    expect([code, stderr]).toEqual([0, '']);
    expect(await streamsRead()).toEqual(['store_visitors', 'seg_vip']);
    expect(await written()).toContain('segment: seg-vip\n');
    expect((await space.cdsync(['run'])).code).toBe(0);
  });

  it('takes names for ids if the key may not list indexes', async () => {
    const listed = await space.cdsync(['discover', ...service(), '--json', '--sample', '1']);
    const { indexes } = JSON.parse(listed.stdout) as { indexes: { id: string }[] };
    const id = indexes[0]?.id as string;
    await space.control('faults', { kind: 'missing_permission', match: '/indexes\\?/' });
    const refused = await init(['--yes']);
    expect([refused.code, refused.stderr]).toEqual([4, expect.stringContaining('--index ID')]);
    expect((await init(['--index', id])).code).toBe(0);
    expect(await written()).toContain(`index: ${id}\n`);
  });

  it('leaves an existing file alone, unless asked to overwrite it', async () => {
    await writeFile(file(), '# mine\n');
    const { code, stderr } = await init(['--yes']);
    expect([code, stderr]).toEqual([2, expect.stringContaining('--force')]);
    expect(await written()).toBe('# mine\n');
    expect((await init(['--yes', '--force'])).code).toBe(0);
    expect(await written()).toContain('index: loyalty_members');
  });
});

describe('nothing is written', () => {
  it.each([
    ['there is no terminal on which to ask for the indexes', [], {}, 2, '--index is missing'],
    ['an index is not there', ['--index', 'loyalty_member'], {}, 2, 'did you mean loyalty_members?'],
    ['there is nothing to log in with', ['--yes'], { CDS_TOKEN: '' }, 2, 'there is nothing to log in with'],
    ['the token cannot be one', ['--yes'], { CDS_TOKEN: 'token-that-is-wrong, and more' }, 2, 'CDS_TOKEN: must be'],
    ['the name of the job is not allowed', ['--yes', '--job', 'My Job'], {}, 2, 'is no name of a job'],
    ['the file is no YAML', ['config.json', '--yes'], {}, 2, 'must end in .yaml or .yml'],
    ['its folder is not there', ['nowhere/cdsync.yaml', '--yes'], {}, 2, 'make its folder first'],
    ['the token is wrong', ['--yes'], { CDS_TOKEN: 'token-that-is-wrong' }, 4, '[unauthorized]'],
    ['the tenant header has another name', ['--yes', '--tenant-header', 'brand-tenant'], {}, 1, '(--tenant-header)'],
  ])('where %s', async (_, words, env, exit, says) => {
    const { code, stderr, stdout } = await init(words, env as Record<string, string>);
    expect([code, stderr, stdout]).toEqual([exit, expect.stringContaining(says), '']);
    // Words that no option takes may be secrets, so they are not repeated.
    const isUnderstood = !stderr.includes('[usage]');
    const again = ['cdsync init', ...(isUnderstood ? [...service(), ...words] : [])].join(' ');
    expect(stderr.trimEnd().split('\n').at(-1)).toBe(`correct it, then: ${again}`);
    expect(stderr).not.toContain('token-that-is-wrong');
    expect(await written()).toBeUndefined();
  });

  it('where a required flag is missing, with its name', async () => {
    const address = await space.cdsync(['init', '--tenant-id', 'acme', '--yes']);
    expect([address.code, address.stderr]).toEqual([2, expect.stringContaining('--base-url is missing')]);
    const tenant = await space.cdsync(['init', '--base-url', space.service.url, '--yes']);
    expect([tenant.code, tenant.stderr]).toEqual([2, expect.stringContaining('--tenant-id is missing')]);
  });

  it('where the service is not reached, which says what to look at', async () => {
    const { code, stderr } = await space.cdsync([
      'init',
      '--base-url',
      'http://127.0.0.1:9',
      '--tenant-id',
      'acme',
      '--yes',
    ]);
    expect([code, stderr]).toEqual([1, expect.stringContaining('[unreachable]')]);
    expect(stderr).toContain('start `cdsync serve` first');
    expect(await written()).toBeUndefined();
  });

  it('where a chosen segment is not there', async () => {
    const { code, stderr } = await init(['--segment', 'seg-none']);
    expect([code === 0, stderr]).toEqual([false, expect.stringContaining('seg-none')]);
    // A batch segment is in the list of segments, and has no members to read.
    const batch = await init(['--segment', 'seg-0001']);
    expect([batch.code, batch.stderr]).toEqual([2, expect.stringContaining('no real-time segment')]);
    expect(await written()).toBeUndefined();
  });

  it('where a chosen index may not be read', async () => {
    await space.control('faults', { kind: 'missing_permission', match: '/profiles' });
    const { code, stderr } = await init(['--yes']);
    expect([code, stderr]).toEqual([4, expect.stringContaining('[forbidden]')]);
    expect(await written()).toBeUndefined();
  });
});

const converse = (words: readonly string[], inputs: readonly (readonly [question: string, input: string])[]) =>
  conversation(space, words, inputs);

describe.runIf(hasTerminals)('cdsync init on a terminal', () => {
  it('asks for each unknown setting, and again after a wrong input', async () => {
    const { code, stdout } = await converse(
      ['init'],
      [
        ['Address of the service [http://127.0.0.1:8787]: ', 'nowhere\r'],
        ['must be an http:// or https:// URL', ''],
        ['Address of the service [http://127.0.0.1:8787]: ', `${space.service.url}\r`],
        ['Tenant id [acme]: ', '\r'],
        ['Header that carries it [service-tenant]: ', '\r'],
        ['Which ones to read? Numbers or names, separated by commas [all]: ', '9\r'],
        ['the tenant has no index "9"', ''],
        ['[all]: ', '2, loyalty_members\r'],
        ['[none]: ', 'seg-none\r'],
        ['the tenant has no real-time segment "seg-none"', ''],
        ['[none]: ', 'seg-gold\r'],
        ['Name of the job [nightly]: ', 'members\r'],
      ],
    );
    expect([code, stdout]).toEqual([0, expect.stringContaining('then: cdsync run')]);
    expect(await written()).toContain('  members:\n');
    expect(await streamsRead()).toEqual(['newsletter_subscribers', 'loyalty_members', 'seg_gold']);
  });

  it('asks for nothing that flags say', async () => {
    const { code } = await converse(
      [
        'init',
        ...service(),
        '--tenant-header',
        'service-tenant',
        '--job',
        'nightly',
        '--index',
        'store_visitors',
        '--segment',
        'seg-gold',
      ],
      [],
    );
    expect(code).toBe(0);
    expect(await streamsRead()).toEqual(['store_visitors', 'seg_gold']);
  });

  it.each([
    ['Ctrl-C', '\x03'],
    ['Ctrl-D', '\x04'],
  ])('writes nothing on %s', async (_, key) => {
    const { code, stdout } = await converse(['init'], [['Address of the service [http://127.0.0.1:8787]: ', key]]);
    expect([code, stdout]).toEqual([130, expect.stringContaining('nothing was written')]);
    expect(stdout.trimEnd().split(/\r?\n/).at(-1)).toBe('next: cdsync init');
    expect(await written()).toBeUndefined();
  });
});
