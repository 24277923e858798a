import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ListObjectsV2Command } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { requestControl } from '../fixtures/control.js';
import { ObjectStore } from '../fixtures/object-store.js';
import { PostgresServer } from '../fixtures/postgres-server.js';
import { type Block, blocksOf, writeFiles } from '../fixtures/recipes.js';
import { shell } from '../fixtures/shell.js';
import { Workspace } from '../fixtures/workspace.js';

const timeout = 600_000;
const tenants = ['acme', 'globex', 'initech'];

interface Login {
  readonly client_id: string;
  readonly client_secret: string;
}

let space: Workspace;
let store: ObjectStore;
let server: PostgresServer;
let blocks: Block[];
const logins = new Map<string, Login>();
beforeAll(async () => {
  space = await Workspace.open({ profiles: 500 });
  store = await ObjectStore.open();
  server = await PostgresServer.start('cdsync-fleet-');
  await store.createBucket('crm-snapshots');
  blocks = await blocksOf('scale.md');
  await writeFiles(space, blocks, new Map([['/srv/jobs', space.folder]]));
  for (const tenant of tenants) {
    const body = JSON.stringify({ action: 'create', name: `fleet-${tenant}`, tenant });
    const response = await requestControl(space.service, 'keys', { method: 'POST', body });
    logins.set(tenant, (await response.json()) as Login);
  }
}, timeout);
afterAll(async () => {
  await server?.stop();
  await store?.close();
  await space?.close();
});

/** The variables in the secret `cdsync-fleet`. */
const shared = (): Record<string, string> => ({
  CDS_BASE_URL: space.service.url,
  BUDGET_URL: server.url(),
  AWS_ENDPOINT_URL_S3: store.url,
  AWS_REGION: 'us-east-1',
  AWS_ACCESS_KEY_ID: 'AKIDEXAMPLE',
  AWS_SECRET_ACCESS_KEY: 'a-secret-of-the-test',
});

function loginOf(tenant: string): Record<string, string> {
  const { client_id, client_secret } = logins.get(tenant) as Login;
  return { CDS_CLIENT_ID: client_id, CDS_CLIENT_SECRET: client_secret };
}

async function keys(prefix: string): Promise<string[]> {
  const list = new ListObjectsV2Command({ Bucket: 'crm-snapshots', Prefix: prefix });
  const { Contents } = await store.client().send(list);
  return (Contents ?? []).flatMap(({ Key }) => Key ?? []);
}

const textOf = (name: string) => blocks.find(({ file }) => file === name)?.text ?? '';

it('the script makes a CronJob for each of fifty tenants, each with its own login and minute', async () => {
  const names = Array.from({ length: 50 }, (_, number) => `tenant-${number + 1}`);
  await writeFile(join(space.folder, 'tenants.txt'), `${names.join('\n')}\n`);
  const { code, stdout } = await shell(space, 'sh cronjobs.sh');
  expect(code).toBe(0);
  const jobs = parseAllDocuments(stdout).map((document) => document.toJS());
  expect(jobs.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual(
    names.map((name) => `CronJob cdsync-${name}`),
  );
  expect(new Set(jobs.map(({ spec }) => spec.schedule)).size).toBe(50);
  for (const [index, { spec }] of jobs.entries()) {
    const [container] = spec.jobTemplate.spec.template.spec.containers;
    expect(container.env).toEqual([{ name: 'TENANT', value: names[index] }]);
    expect(container.envFrom.map((each: { secretRef: { name: string } }) => each.secretRef.name)).toEqual([
      'cdsync-fleet',
      `cdsync-${names[index]}`,
    ]);
    expect(spec.concurrencyPolicy).toBe('Forbid');
  }
});

it(
  "pods of several tenants run at once, each in its own folder of the bucket; the next run's begin without a disk",
  async () => {
    await writeFile(join(space.folder, 'tenants.txt'), `${tenants.join('\n')}\n`);
    const { stdout } = await shell(space, 'sh cronjobs.sh');
    const containers = parseAllDocuments(stdout).map(
      (document) => document.toJS().spec.jobTemplate.spec.template.spec.containers[0],
    );
    /** A pod: an empty folder, the command line and the environment of the container. */
    const pod = async (run: number, { args, env }: { args: string[]; env: { name: string; value: string }[] }) => {
      const tenant = env[0]?.value ?? '';
      const folder = join(space.folder, `pod-${run}-${tenant}`);
      await mkdir(folder);
      const line = `cp fleet.yaml '${folder}' && cd '${folder}' && cdsync ${args.join(' ').replace('/etc/cdsync/', '')} --json`;
      const ended = await shell(space, line, { ...shared(), ...loginOf(tenant), TENANT: tenant });
      expect([tenant, ended.code, ended.code === 0 ? '' : ended.stderr]).toEqual([tenant, 0, '']);
      const [stream] = JSON.parse(ended.stdout).jobs[0].streams;
      return { rows: stream.rows, inserted: stream.inserted, unchanged: stream.unchanged };
    };
    const first = await Promise.all(containers.map((each) => pod(1, each)));
    expect(first).toEqual(tenants.map(() => ({ rows: 500, inserted: 500, unchanged: 0 })));
    for (const tenant of tenants)
      expect(await keys(`${tenant}/nightly/`)).toContain(`${tenant}/nightly/nightly.duckdb`);
    const second = await Promise.all(containers.map((each) => pod(2, each)));
    expect(second).toEqual(tenants.map(() => ({ rows: 500, inserted: 0, unchanged: 500 })));
    expect(await server.query('SELECT count(*)::int AS accounts FROM cdsync_budget')).toEqual([{ accounts: 3 }]);
  },
  timeout,
);

it(
  'the Airflow task runs each tenant with its own login, and fails alone (with a fake scheduler)',
  async () => {
    await mkdir(join(space.folder, 'fakes', 'airflow'), { recursive: true });
    await mkdir(join(space.folder, 'secrets'));
    const decorators = [
      'class Mapped:',
      '    def __init__(self, work): self.work = work',
      '    def expand(self, tenant):',
      '        for each in tenant:',
      '            try: print("GOT", each, self.work(each))',
      '            except Exception as error: print("FAILED", type(error).__name__, error)',
      'def dag(**_): return lambda f: f',
      'def task(**_): return Mapped',
    ];
    await writeFile(join(space.folder, 'fakes', 'airflow', '__init__.py'), '');
    await writeFile(join(space.folder, 'fakes', 'airflow', 'decorators.py'), `${decorators.join('\n')}\n`);
    await writeFile(
      join(space.folder, 'fakes', 'airflow', 'exceptions.py'),
      'class AirflowException(Exception): pass\nclass AirflowFailException(AirflowException): pass\n',
    );
    for (const tenant of tenants) {
      const env = { ...loginOf(tenant), ...(tenant === 'globex' ? { CDS_CLIENT_SECRET: 'wrong' } : {}) };
      const lines = Object.entries(env).map(([name, value]) => `${name}=${value}`);
      await writeFile(join(space.folder, 'secrets', `${tenant}.env`), `${lines.join('\n')}\n`);
    }
    const ended = await shell(space, "PYTHONPATH=fakes:dags python3 -c 'import cdsync_fleet'", shared());
    expect([ended.code, ended.code === 0 ? '' : ended.stderr]).toEqual([0, '']);
    expect(ended.stdout.trim().split('\n')).toEqual([
      "GOT acme {'members': 500}",
      expect.stringMatching(/^FAILED AirflowFailException globex: .* \(4\)$/),
      "GOT initech {'members': 500}",
    ]);
  },
  timeout,
);

it(
  'each entry of the GitHub matrix has its own login and its own concurrency, and its last step runs the job',
  async () => {
    const { jobs } = parse(textOf('.github/workflows/fleet.yml'));
    const { strategy, concurrency, env, steps } = jobs.sync;
    expect(strategy).toMatchObject({ 'fail-fast': false, matrix: { tenant: tenants } });
    expect(concurrency.group).toContain('matrix.tenant');
    expect(Object.keys(env)).toEqual(expect.arrayContaining(['TENANT', 'CDS_CLIENT_ID', 'CDS_CLIENT_SECRET']));
    const { run } = steps.at(-1);
    const ended = await shell(space, run, { ...shared(), ...loginOf('acme'), TENANT: 'acme' });
    expect([ended.code, ended.code === 0 ? '' : ended.stderr]).toEqual([0, '']);
    expect(await readdir(join(space.folder, 'cache', 'acme'))).toContain('nightly');
  },
  timeout,
);
