import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ConfigPlan, configText } from '../../../../src/cli/init/config.js';
import { plannedStreams } from '../../../../src/cli/init/streams.js';
import { oauthAuth, tokenAuth } from '../../../../src/cli/service-from-flags.js';
import { parseConfig } from '../../../../src/config/parse.js';

const env = { CDS_TOKEN: 'token-of-a-test', CDS_CLIENT_ID: 'id-of-a-test', CDS_CLIENT_SECRET: 'secret-of-a-test' };

const plan: ConfigPlan = {
  service: { base_url: 'http://127.0.0.1:8787', tenant_id: 'acme', auth: tokenAuth },
  storage: './data',
  job: 'nightly',
  streams: [{ name: 'members', source: 'index_profiles', of: 'members', about: null }],
  others: [],
};

function parsed(changes: Partial<ConfigPlan>) {
  return parseConfig(configText({ ...plan, ...changes }), '/srv/cdsync.yaml', { env });
}

const text = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1 }).filter((each) => each.isWellFormed() && !each.includes('\0')),
  fc.constantFrom(
    'true',
    'NULL',
    '02134',
    '1e3',
    '.5',
    '.inf',
    '~',
    '${CDS_TOKEN}',
    '$',
    '# no',
    'a: b',
    '- x',
    '*a',
    'a:',
    "it's",
    '"',
    '\\',
  ),
);

describe('the configuration that init writes', () => {
  it('has exactly the planned streams, whatever names, ids and descriptions the service has', () => {
    const things = fc.uniqueArray(fc.record({ id: text, name: text, description: text }), {
      minLength: 1,
      maxLength: 5,
      selector: ({ id }) => id,
    });
    fc.assert(
      fc.property(things, things, (indexes, others) => {
        const taken = new Set<string>();
        const streams = [
          ...plannedStreams('index_profiles', indexes, indexes, taken),
          ...plannedStreams('segment_members', others, others, taken),
        ];
        const { jobs } = parsed({ streams, others: plannedStreams('index_profiles', others, others, taken) });
        const read = jobs[0]?.streams.map((stream) => [
          stream.name,
          stream.source === 'index_profiles' ? stream.index : stream.source === 'segment_members' && stream.segment,
        ]);
        expect(read).toEqual(streams.map(({ name, of }) => [name, of]));
      }),
    );
  });

  it('keeps the words that say where the service and the storage are', () => {
    const visible = fc.stringMatching(/^[\x21-\x7e]{1,30}$/);
    fc.assert(
      fc.property(
        visible,
        fc.stringMatching(/^\.\/[\x20-\x3e\x40-\x7e]{1,20}[\x21-\x3e\x40-\x7e]$/),
        (tenant_id, storage) => {
          const config = parsed({ service: { ...plan.service, tenant_id }, storage });
          expect([config.service.tenantId, config.storage]).toEqual([tenant_id, expect.stringContaining('/srv/')]);
        },
      ),
    );
  });

  it.each([
    ['token', tokenAuth, 'token'],
    ['OAuth', oauthAuth, 'client_credentials'],
    ['a file', { token_file: './secrets/token' }, 'token_file'],
  ])('logs in with %s, and holds no secret', (_, auth, type) => {
    const written = configText({ ...plan, service: { ...plan.service, auth } });
    expect(parseConfig(written, '/srv/cdsync.yaml', { env }).service.auth.type).toBe(type);
    for (const secret of Object.values(env)) expect(written).not.toContain(secret);
  });

  it('takes any name of a job', () => {
    expect(parsed({ job: 'null' }).jobs[0]?.name).toBe('null');
  });

  it('carries header names that were given', () => {
    const service = { ...plan.service, tenant_header: 'brand-tenant', oauth_tenant_header: 'X-Brand-Tenant' };
    expect(parsed({ service }).service).toMatchObject({
      tenantHeader: 'brand-tenant',
      oauthTenantHeader: 'X-Brand-Tenant',
    });
  });

  it('shows as comments only options that there are', () => {
    const others = [{ name: 'other', source: 'index_profiles', of: 'other "index" $1', about: null }] as const;
    const lines = configText({ ...plan, others }).split('\n');
    const options = lines.flatMap((line, at) => (/^ *# (- \{|[a-z_]+: [^ ])/.test(line) ? [at] : []));
    expect(options.length).toBeGreaterThan(10);
    for (const at of options) {
      const uncommented = lines.map((line, index) => (index === at ? line.replace('# ', '') : line)).join('\n');
      expect(() => parseConfig(uncommented, '/srv/cdsync.yaml', { env }), lines[at]).not.toThrow();
    }
  });
});
