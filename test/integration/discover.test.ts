import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { DiscoveredIndex, Discovery } from '../../src/engine/inspect/discover-service.js';
import { requestControl } from '../fixtures/control.js';
import { type Ended, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 1200 });
});
afterAll(() => space.close());
afterEach(() => space.clearFaults());

/** The command, as a user without a configuration calls it. */
async function discover(words: readonly string[] = [], env: Record<string, string> = {}): Promise<Ended> {
  const { url, tenantId } = space.service;
  return space.cdsync(['discover', '--base-url', url, '--tenant-id', tenantId, ...words], env);
}

async function discovered(words: readonly string[] = [], env: Record<string, string> = {}): Promise<Discovery> {
  const { code, stdout, stderr } = await discover(['--json', ...words], env);
  if (code !== 0) throw new Error(`cdsync discover ended with ${code}: ${stderr}`);
  return JSON.parse(stdout) as Discovery;
}

function indexOf({ indexes }: Discovery, name: string): DiscoveredIndex {
  const found = indexes.find((index) => index.name === name);
  if (found === undefined) throw new Error(`no index ${name}`);
  return found;
}

function typesOf({ attributes }: DiscoveredIndex): Record<string, string> {
  return Object.fromEntries(attributes.map(({ path, type }) => [path, type]));
}

/** Number of pages of profiles that were requested. */
async function profilePages(): Promise<number> {
  const response = await requestControl(space.service, 'stats');
  const { operations } = (await response.json()) as { operations: Record<string, number> };
  return operations['GET /api/indexes/{id}/profiles'] ?? 0;
}

const odd = [
  { id: 'a', attributes: { zip: '02134', n: 1, huge: 12345678901234567890n, Email: 'x', email: 'y', list: [1, null] } },
  {
    id: 'b',
    attributes: { zip: '10115', n: 1.5, mixed: 'text', nested: { deep: { on: true } }, list: [], gone: null },
  },
  { id: 'c', attributes: [{ zip: '00001', n: null, mixed: 7, '': 'unnamed', list: [2] }] },
  { id: '', attributes: { never: 'kept' } },
];

function json(value: unknown): string {
  return JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? `#${each}` : each)).replace(/"#(\d+)"/g, '$1');
}

describe('cdsync discover', () => {
  it('names columns and types as a run over the same profiles does', async () => {
    await space.control('profiles', { index: 'odd', records: odd.map(json), filterable: ['zip'] });
    const found = await discovered(['--sample', '1200']);
    const cases = ['odd', 'loyalty_members', 'newsletter_subscribers'].flatMap((index) =>
      (['keep', 'infer'] as const).map((strings) => ({ index, strings })),
    );
    for (const { index, strings } of cases) {
      const name = `types_${index}_${strings}`;
      await space.configure(name, [{ name: 'members', source: 'index_profiles', index, strings }], {
        job: { guards: { max_rejected: 1 } },
      });
      await space.runWell(name);
      const columns = await space.query(
        name,
        "select path, column_name, type from cdsync.columns where stream = 'members' and path not in ('id', 'index_id')",
      );
      const seen = indexOf(found, index).attributes.map(({ path, column, type, inferred }) => ({
        path,
        column_name: column,
        type: strings === 'infer' ? inferred : type,
      }));
      expect(columns.length).toBeGreaterThan(3);
      expect(new Set(seen.map(json))).toEqual(new Set(columns.map(json)));
    }
  });

  it('shows how many profiles lack an attribute, rejects left out', async () => {
    await space.control('profiles', { index: 'odd', records: odd.map(json) });
    const { attributes, sampled } = indexOf(await discovered(), 'odd');
    const shares = Object.fromEntries(attributes.map(({ path, null_share }) => [path, Math.round(null_share * 3)]));
    expect(sampled).toBe(3);
    expect(shares).toMatchObject({
      'attributes.zip': 0,
      'attributes.n': 1,
      'attributes.huge': 2,
      'attributes.gone': 3,
    });
  });

  it('reads a sample and no more, whatever the pages are like', async () => {
    const before = await profilePages();
    const found = await discovered(['--sample', '100']);
    expect(indexOf(found, 'loyalty_members').sampled).toBe(100);
    expect((await profilePages()) - before).toBe(found.indexes.length);
    await space.control('faults', { kind: 'empty_pages', match: '/profiles', pages: 2 });
    expect(indexOf(await discovered(['--sample', '100']), 'loyalty_members').sampled).toBe(100);
    await space.clearFaults();
    await space.control('faults', { kind: 'small_pages', match: '/profiles', size: 60 });
    expect(indexOf(await discovered(['--sample', '100']), 'loyalty_members').sampled).toBe(120);
  });

  it('asks for totals and filters only when asked to', async () => {
    const plain = indexOf(await discovered(), 'loyalty_members');
    expect(plain.profiles).toBeNull();
    expect(plain.attributes.every(({ filterable }) => filterable === null)).toBe(true);
    const asked = indexOf(await discovered(['--totals', '--filters']), 'loyalty_members');
    expect(asked.profiles).toBe(1200);
    const filterable = asked.attributes.filter(({ filterable: can }) => can === true).map(({ column }) => column);
    expect(filterable.sort()).toEqual(['city', 'country', 'is_active', 'language', 'tier', 'zip']);
    expect(asked.attributes.find(({ column }) => column === 'email')?.filterable).toBe(false);
  });

  it('does not take an ignored filter for a filter', async () => {
    await space.control('faults', { kind: 'ignore_filter' });
    const { attributes } = indexOf(await discovered(['--filters']), 'loyalty_members');
    expect(attributes.filter(({ filterable }) => filterable === true)).toEqual([]);
  });

  it('shows no value of a profile, and requests none that identifies a person', async () => {
    const secret = 'ada.lovelace@example.com';
    const records = Array.from({ length: 20 }, (_, at) => ({
      id: `p${at}`,
      attributes: { email: `${at}.${secret}`, tier: 'gold' },
    }));
    await space.control('profiles', { index: 'odd', records, filterable: ['email', 'tier'] });
    const { stdout, stderr } = await discover(['--filters', '--verbose', '--json']);
    expect(stdout + stderr).not.toContain(secret);
    expect(stdout + stderr).not.toContain('silver');
    // Only requests whose filter names an address would be hit.
    await space.control('faults', { kind: 'status', status: 418, match: secret });
    expect(typesOf(indexOf(await discovered(['--filters']), 'odd'))).toEqual({
      'attributes.email': 'VARCHAR',
      'attributes.tier': 'VARCHAR',
    });
  });

  it('takes the service from a configuration, without what its jobs need', async () => {
    const streams = [{ name: 'members', source: 'index_profiles', index: '${NOT_SET}' }];
    await space.configure('configured', streams);
    const { code, stdout } = await space.cdsync(['discover', 'configured.json']);
    expect([code, stdout]).toEqual([0, expect.stringContaining('index loyalty_members (id ')]);
  });

  it('takes ./cdsync.yaml by default', async () => {
    await writeFile(
      join(space.folder, 'cdsync.yaml'),
      `service: { base_url: '${space.service.url}', tenant_id: acme, auth: { token: '\${CDS_TOKEN}' } }`,
    );
    expect((await space.cdsync(['discover', '--sample', '5'])).code).toBe(0);
  });

  it('takes everything from the environment if there is no file either', async () => {
    const variables = { CDS_BASE_URL: space.service.url, CDS_TENANT_ID: 'acme', CDS_TOKEN: '' };
    const { clientId, clientSecret } = space.service;
    const env = { ...variables, CDS_CLIENT_ID: clientId, CDS_CLIENT_SECRET: clientSecret };
    const { code, stdout } = await space.cdsync(['discover', '--base-url', space.service.url, '--sample', '5'], env);
    expect([code, stdout]).toEqual([0, expect.stringContaining('tenant acme')]);
  });
});

describe('segments', () => {
  let stub: Server;
  beforeAll(async () => {
    const pages: Record<string, unknown> = {
      first: { data: [{ id: 'seg-1', name: 'VIP \u001b[31m', status: 'ready' }], next_token: 'second' },
      second: { data: [{ id: 'seg-2', more: true }], next_token: null },
    };
    stub = createServer(({ url }, response) => {
      const { pathname, searchParams } = new URL(url ?? '/', 'http://stub');
      const page = pathname === '/api/segments' ? pages[searchParams.get('next_token') ?? 'first'] : { data: [] };
      response.end(JSON.stringify(page));
    });
    await once(stub.listen(0, '127.0.0.1'), 'listening');
  });
  afterAll(() => stub.close());
  const words = () => {
    const { port } = stub.address() as AddressInfo;
    return ['discover', '--base-url', `http://127.0.0.1:${port}`, '--tenant-id', 'acme'];
  };

  it('are listed to the last page, with their ids', async () => {
    const { stdout } = await space.cdsync([...words(), '--json']);
    expect((JSON.parse(stdout) as Discovery).segments).toEqual([
      { id: 'seg-1', name: 'VIP \u001b[31m', status: 'ready' },
      { id: 'seg-2', name: null, status: null },
    ]);
  });

  it('cannot steer the terminal by their names', async () => {
    const { stdout } = await space.cdsync(words());
    expect(stdout).toContain('indexes: none\n\nsegments\n');
    expect(stdout).toContain('seg-1  VIP  [31m  ready\n');
    expect(stdout).not.toContain('\u001b');
  });
});

describe('data that the key may not read', () => {
  it('is an error of that part only, and no failure', async () => {
    await space.control('faults', { kind: 'missing_permission', match: '/profiles' });
    const { code, stdout } = await discover();
    expect(code).toBe(0);
    expect(stdout).toMatch(/index loyalty_members .*\n.*\n {2}not readable: .*403.*\[forbidden\]/);
  });

  it('fails only when that is all data, with exit code 4', async () => {
    await space.control('faults', { kind: 'missing_permission' });
    const { code, stdout, stderr } = await discover();
    expect(code).toBe(4);
    expect(stdout).toMatch(/indexes\n {2}not readable: /);
    expect(stderr.trimEnd().split('\n').at(-1)).toBe('give the API key more permissions, then: cdsync discover');
  });
});

describe('it fails', () => {
  it('with 1 if an index cannot be read, and shows the others', async () => {
    const { indexes } = await discovered(['--sample', '5']);
    await space.control('faults', {
      kind: 'status',
      status: 501,
      match: `GET /api/indexes/${indexes[0]?.id}/profiles`,
    });
    const { code, stdout } = await discover(['--json', '--sample', '5']);
    const found = JSON.parse(stdout) as Discovery;
    expect([code, found.status]).toEqual([1, 'failed']);
    expect(found.indexes.map(({ error }) => error?.code ?? null)).toEqual([
      'service_unavailable',
      ...indexes.slice(1).map(() => null),
    ]);
  });

  it('with 4 at a wrong token', async () => {
    const { code, stderr } = await discover([], { CDS_TOKEN: 'token-that-is-wrong' });
    expect([code, stderr]).toEqual([4, expect.stringContaining('[unauthorized]')]);
    expect(stderr).not.toContain('token-that-is-wrong');
  });

  it.each([
    [['--sample', '0'], '--sample must be an integer'],
    [['--auth', 'oauth'], 'CDS_CLIENT_ID and CDS_CLIENT_SECRET are not set'],
    [['--base-url', 'http://127.0.0.1:1'], '--base-url was given more than once'],
    [['--tenant-header', 'not a header'], '--tenant-header'],
    [['configured.json'], 'a configuration and flags both say where the service is'],
    [['--token-file', './absent', '--auth', 'token'], '--token-file does not go with --auth token'],
  ])('with 2 at %j', async (words, says) => {
    const { code, stderr } = await discover(words);
    expect([code, stderr]).toEqual([2, expect.stringContaining(says)]);
  });

  it('with 2 at an address that is none', async () => {
    const { code, stderr } = await space.cdsync(['discover', '--base-url', 'ftp://example.com', '--tenant-id', 'acme']);
    expect([code, stderr]).toEqual([2, expect.stringContaining('--base-url: must be an http:// or https:// URL')]);
  });

  it('with 2 and the name of the flag if nothing says which service', async () => {
    const { code, stderr } = await space.cdsync(['discover', '--tenant-id', 'acme']);
    expect([code, stderr]).toEqual([2, expect.stringContaining('--base-url is missing')]);
  });
});
