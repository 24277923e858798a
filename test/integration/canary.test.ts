import { readFile, writeFile } from 'node:fs/promises';
import { createServer as createTlsServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { canary, canaryEmail, LeakWatch, marker } from '../fixtures/canaries.js';
import { openssl, selfSigned } from '../fixtures/self-signed.js';
import { Receiver } from '../fixtures/webhook-server.js';
import { WorkflowService } from '../fixtures/workflow-service.js';
import { type Ended, ended, Workspace } from '../fixtures/workspace.js';

type Row = Record<string, unknown>;

const timeout = 600_000;
const secrets = {
  SALT: canary('salt'),
  HOOK: canary('hook-token'),
  SIGNING: canary('signing-secret'),
  PASSWORD: canary('pass"word'),
  AUTHORIZATION: canary('authorization'),
};

let space: Workspace;
let watch: LeakWatch;
let receiver: Receiver;
let workflows: WorkflowService;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 200 });
  watch = new LeakWatch([space.service.token, space.service.clientSecret]);
  receiver = await Receiver.open();
  workflows = await WorkflowService.open(space.service.url);
});
afterAll(async () => {
  await Promise.all([receiver.close(), workflows.close()]);
  await space.close();
});

const people = (count: number, more: (n: number) => Row = () => ({})): Row[] =>
  Array.from({ length: count }, (_, n) => ({
    id: `r${n}`,
    index_id: 'people',
    attributes: {
      email: canaryEmail(`p${n}`),
      name: `${canary('name')} ${n}`,
      phone: canary(`phone-${n}`),
      tag: canary('filter'),
      town: canary(`town-${n % 2}`),
      score: n,
      ...more(n),
    },
  }));

const serve = (records: readonly unknown[]) =>
  space.control('profiles', { index: 'people', filterable: ['tag', 'town'], records });

const filtered = { name: 'filtered', source: 'index_profiles', index: 'people', filter: { tag: canary('filter') } };
const whole = { name: 'whole', source: 'index_profiles', index: 'people' };

const ways = [['--verbose'], ['--json', '--verbose', '--log-format', 'json']] as const;

/** Runs a command in each of its output forms, which must all end with this code, and searches all that it says. */
async function said(words: readonly string[], code: number, env: Record<string, string> = {}): Promise<Ended> {
  let last: Ended | undefined;
  for (const way of ways) {
    last = await space.cdsync([...words, ...way], { ...secrets, ...env });
    const shown = `cdsync ${words.join(' ')} ${way.join(' ')}`.replaceAll(/kanarie/gi, '…');
    watch.lookAt(shown, last);
    expect([shown, last.code, last.code === code ? '' : last.stderr + last.stdout]).toEqual([shown, code, '']);
  }
  return last as Ended;
}

/** Runs a command once, in one form: for what cannot be done twice. */
async function once(words: readonly string[], code: number): Promise<Ended> {
  const result = await space.cdsync([...words, '--verbose'], secrets);
  watch.lookAt(`cdsync ${words.join(' ')}`.replaceAll(/kanarie/gi, '…'), result);
  expect([words.join(' '), result.code, result.code === code ? '' : result.stderr]).toEqual([
    words.join(' '),
    code,
    '',
  ]);
  return result;
}

async function during(fault: Row, work: () => Promise<unknown>): Promise<void> {
  await space.control('faults', fault);
  await work();
  await space.clearFaults();
}

/** Everything that has leaked so far, without what a command is meant to show. */
function nothingLeaked(): void {
  expect(watch.drain()).toEqual([]);
}

const isData = (file: string) => /\.(parquet|keys|duckdb|wal|tmp)$/.test(file) || /rejects|\/spool\//.test(file);

describe('no secret and no personal value is seen', () => {
  it(
    'in what commands say of a job that goes well, day after day',
    async () => {
      await serve(people(60));
      await space.configure('well', [
        {
          ...filtered,
          columns: { email: { hash: true, salt: '${SALT}' }, phone: { mask: 'last4' }, name: { drop: true } },
        },
        { ...whole, partition_by: { attribute: 'town', values: [canary('town-0'), canary('town-1')] } },
        {
          name: 'chosen',
          source: 'sql',
          key: ['id'],
          query: `select id, name from whole where name <> '${canary('literal')}'`,
        },
        { name: 'members', source: 'index_profiles', index: 'loyalty_members' },
      ]);
      await said(['check', 'well.json'], 0);
      await said(['plan', 'well.json'], 0);
      await said(['run', 'well.json'], 0);
      await serve(people(61, (n) => (n < 9 ? { name: canary('married'), extra: canary('new') } : {})));
      await said(['plan', 'well.json'], 0);
      await said(['run', 'well.json'], 0);
      await serve(people(62));
      await said(['run', 'well.json', '--full'], 0);
      await said(['status', 'well.json'], 0);
      await said(['state', 'show', 'well.json'], 0);
      await said(['verify', 'well.json'], 0);
      await said(['check', 'well.json', '--contract'], 0);
      await said(['schema', 'well.json', '--dbt'], 0);
      await said(['__complete', 'bash', 'run', 'well.json', '--stream', ''], 0);
      await said(['diff', 'well.json', 'whole'], 0);
      await said(['diff', 'well.json', 'whole', '--column', 'name'], 0);
      await said(['state', 'reset', 'well.json'], 0);
      await watch.lookThrough(space, 'well', isData);
      nothingLeaked();
    },
    timeout,
  );

  it(
    'in what is held, approved and discarded',
    async () => {
      await serve(people(40));
      const guards = {
        max_changed: 0,
        unique: ['tag'],
        max_null: { name: 0 },
        expect: [`select id from whole where email = '${canaryEmail('p1')}'`],
      };
      await space.configure('held', [{ ...whole, guards }]);
      await said(['run', 'held.json'], 3);
      await said(['status', 'held.json'], 0);
      await said(['plan', 'held.json'], 0);
      const { jobs } = (await space.run('held', [], secrets)).report;
      await once(['approve', 'held.json', String(jobs[0]?.run_id)], 0);
      await serve(people(3));
      const { report } = await space.run('held', [], secrets);
      await watch.lookThrough(space, 'held', isData);
      await once(['discard', 'held.json', String(report.jobs[0]?.run_id)], 0);
      await serve([]);
      await said(['run', 'held.json'], 3);
      await watch.lookThrough(space, 'held', isData);
      nothingLeaked();
    },
    timeout,
  );

  it(
    'in what is said of answers that are wrong',
    async () => {
      await serve(people(30));
      await space.configure('faulty', [{ ...filtered, page_size: 10 }], {
        service: { retry: { patience: '1s', max_delay_ms: 20 } },
      });
      const quoting = `the filter ${canary('filter')} is none; asked by ${canaryEmail('asker')}`;
      for (const status of [400, 401, 404, 429, 500]) {
        const code = status === 401 ? 4 : 1;
        await during({ kind: 'status', match: '/profiles', status, message: quoting }, () =>
          said(['run', 'faulty.json'], code),
        );
      }
      for (const command of ['check', 'plan']) {
        await during({ kind: 'status', match: '/profiles', status: 400, message: quoting }, () =>
          said([command, 'faulty.json'], 1),
        );
      }
      for (const body of [
        `<html><body>${canaryEmail('page')}</body></html>`,
        `${canary('garbage')} is no JSON`,
        `{"data": [{"id": "x", "attributes": {"email": "${canaryEmail('cut')}"`,
        `{"data": "${canary('data')}"}`,
        `{"data": [], "next_token": {"of": "${canary('token')}"}}`,
      ]) {
        await during({ kind: 'status', match: '/profiles', status: 200, body }, () => said(['run', 'faulty.json'], 1));
      }
      const location = `https://elsewhere.example.com/${canary('path')}?email=${canaryEmail('where')}`;
      await during({ kind: 'status', match: '/profiles', status: 302, headers: { location } }, () =>
        said(['run', 'faulty.json'], 1),
      );
      await during({ kind: 'ignore_filter', match: '/profiles' }, async () => {
        await serve(people(30, (n) => (n === 3 ? { tag: canary('other') } : {})));
        await said(['run', 'faulty.json'], 1);
        await said(['plan', 'faulty.json'], 1);
      });
      for (const kind of ['reset', 'torn', 'half_json', 'not_json', 'gzip', 'loop', 'repeat_token', 'ignored_token']) {
        await during({ kind, match: '/profiles', count: 400 }, async () => {
          watch.lookAt(kind, await space.cdsync(['run', 'faulty.json', '--verbose', '--log-format', 'json'], secrets));
        });
      }
      await watch.lookThrough(space, 'faulty', isData);
      nothingLeaked();
    },
    timeout,
  );

  it(
    'in what is said of records that are wrong',
    async () => {
      await space.configure('odd', [{ ...whole, guards: { max_rejected: 0 } }]);
      const odd = [
        `{"id": {"of": "${canary('id')}"}, "attributes": {"email": "${canaryEmail('odd')}"}}`,
        `{"id": "a", "attributes": "${canary('text')}"}`,
        `{"attributes": {"email": "${canaryEmail('nobody')}"}}`,
        `"${canary('record')}"`,
        `{"id": "b", "attributes": {"email": "${canaryEmail('b')}", "score": "${canary('score')}", "when": 1e999}}`,
      ];
      await serve(odd);
      await said(['run', 'odd.json'], 3);
      await said(['report', 'odd.json'], 0);
      watch.lookAt('the page of a held run', await space.cdsync(['report', 'odd.json', '--out', '-'], secrets));
      await said(['plan', 'odd.json'], 0);
      await space.configure('strict', [
        { ...whole, columns: { name: { type: 'integer' } }, contract: { columns: 'freeze', types: 'freeze' } },
      ]);
      await serve(people(5, () => ({ name: '12' })));
      await said(['run', 'strict.json'], 0);
      await serve(people(5, (n) => ({ name: canary(`no-number-${n}`), fresh: canary('fresh') })));
      await said(['run', 'strict.json'], 1);
      await said(['check', 'strict.json', '--contract'], 1);
      await space.configure('computed', [
        whole,
        { name: 'cast', source: 'sql', key: ['id'], query: 'select id, email::integer as n from whole' },
        { name: 'twice', source: 'sql', key: ['name'], query: `select '${canary('literal')}' as name from whole` },
        {
          name: 'misspelt',
          source: 'sql',
          key: ['id'],
          query: `select id from whole where emial = '${canaryEmail('literal')}'`,
        },
      ]);
      await said(['run', 'computed.json'], 5);
      for (const job of ['odd', 'strict', 'computed']) await watch.lookThrough(space, job, isData);
      nothingLeaked();
    },
    timeout,
  );

  it(
    'in what is said of keys that are looked up',
    async () => {
      const keys = [{ email: canaryEmail('key') }, { phone: canary('key-phone') }];
      const realtime = { source: 'realtime_profiles', collection: 'col-1', keys };
      await space.configure('keyed', [
        { name: 'posted', ...realtime },
        { name: 'asked', ...realtime, method: 'get' },
        { name: 'listed', source: 'realtime_profiles', collection: 'col-1', keys: { file: './keys.csv' } },
      ]);
      await writeFile(join(space.folder, 'keys.csv'), `email\n${canaryEmail('file')}\n`);
      await said(['check', 'keyed.json'], 0);
      await said(['plan', 'keyed.json'], 0);
      await said(['run', 'keyed.json'], 0);
      const quoting = `no profile with ${canaryEmail('key')} or ${canaryEmail('file')}`;
      for (const status of [400, 500]) {
        await during({ kind: 'status', match: 'lookup', status, message: quoting }, () =>
          said(['run', 'keyed.json'], 1),
        );
        for (const method of ['post', 'get']) {
          await during({ kind: 'status', match: 'lookup', status, message: quoting }, () =>
            said(
              [
                'lookup',
                'keyed.json',
                'col-1',
                `email=${canaryEmail('key')}`,
                `phone=${canary('key-phone')}`,
                '--method',
                method,
              ],
              1,
            ),
          );
        }
      }
      await said(['lookup', 'keyed.json', 'col-1', `email=${canaryEmail('nobody')}`], 1);
      await said(['lookup', 'keyed.json', 'col-1', canary('no-key')], 2);
      await writeFile(join(space.folder, 'keys.csv'), `email\n"${canaryEmail('file')}\n`);
      await said(['run', 'keyed.json'], 5);
      await writeFile(join(space.folder, 'keys.csv'), `email,phone\n${canaryEmail('file')}\n`);
      await said(['run', 'keyed.json'], 5);
      await watch.lookThrough(space, 'keyed', isData);
      nothingLeaked();
    },
    timeout,
  );

  it(
    'in what is said of configurations and logins that are wrong',
    async () => {
      const wrong: [string, Row, Row][] = [
        ['filter', { filter: canary('filter') }, {}],
        ['filter2', { filter: { tag: [canary('filter')] } }, {}],
        ['salt', { columns: { email: { hash: true, salt: [canary('salt')] } } }, {}],
        ['secret', {}, { auth: { client_id: 'a', client_secrte: canary('secret') } }],
        ['token', {}, { auth: { token: `${canary('token')} with spaces` } }],
        ['url', {}, { base_url: `http://user:${canary('password')}@127.0.0.1:1` }],
      ];
      for (const [name, stream, service] of wrong) {
        await space.configure(`wrong_${name}`, [{ ...whole, ...stream }], { service });
        await said(['run', `wrong_${name}.json`], 2);
      }
      await space.configure('login', [whole], { service: { retry: { patience: '0s' } } });
      await said(['run', 'login.json'], 4, { CDS_TOKEN: canary('token') });
      await said(['run', 'login.json'], 2, { CDS_TOKEN: `${canary('token')}\nof two lines` });
      await space.configure('oauth', [whole], {
        service: { auth: { client_id: 'cid-none', client_secret: '${CLIENT_SECRET}' } },
      });
      await said(['run', 'oauth.json'], 4, { CLIENT_SECRET: canary('client-secret') });
      await during({ kind: 'status', match: 'oauth2', status: 400, message: `no ${canary('client-secret')}` }, () =>
        said(['run', 'oauth.json'], 4, { CLIENT_SECRET: canary('client-secret') }),
      );
      const env = join(space.folder, 'broken.env');
      await writeFile(env, `CDS_TOKEN='${canary('token')}\n${canary('line')}\n`);
      await said(['run', 'login.json', '--env-file', env], 2);
      nothingLeaked();
    },
    timeout,
  );

  it.skipIf(!openssl)(
    'in what is said of a connection that is not trusted',
    async () => {
      const server: Server = createTlsServer(selfSigned(), (_, response) => response.end(canary('tls')));
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const { port } = server.address() as AddressInfo;
      await space.configure('tls', [filtered], { service: { base_url: `https://localhost:${port}` } });
      try {
        await said(['run', 'tls.json'], 1);
        await said(['check', 'tls.json'], 1);
      } finally {
        server.closeAllConnections();
        await new Promise((resolve) => server.close(resolve));
      }
      nothingLeaked();
    },
    timeout,
  );

  it(
    'in what is said of looking around, of workflows and of queries that fail',
    async () => {
      await serve(people(30));
      const service = ['--base-url', space.service.url, '--tenant-id', space.service.tenantId];
      await said(['discover', ...service, '--totals', '--filters'], 0);
      await said(['init', 'made.yaml', ...service, '--yes', '--force'], 0);
      await during({ kind: 'status', match: '/profiles', status: 400, message: `no ${canaryEmail('p1')}` }, () =>
        said(['discover', ...service], 1),
      );
      workflows.plans.set('cg-ok', { states: ['succeeded'] });
      workflows.plans.set('cg-bad', {
        states: ['failed'],
        error: { type: 'broken', message: `the row of ${canaryEmail('row')} is broken`, attribution: 'customer' },
      });
      const flows = ['--base-url', workflows.url, '--tenant-id', space.service.tenantId];
      await said(['workflow', 'start', 'cg-ok', ...flows, '--wait'], 0);
      await said(['workflow', 'start', 'cg-bad', ...flows, '--wait'], 1);
      await said(['workflow', 'status', 'wr-1', ...flows], 0);
      await space.configure('queried', [whole]);
      await said(['run', 'queried.json'], 0);
      for (const sql of [
        'select email::integer from whole',
        'select error(name) from whole',
        'select cast(name as date) from whole',
      ]) {
        const failed = await said(['query', 'queried.json', sql], 2);
        expect(failed.stderr).toContain('sql_failed');
      }
      nothingLeaked();
    },
    timeout,
  );

  it(
    'in what is said of destinations, well or not',
    async () => {
      await serve(people(20));
      const hook = {
        name: 'hook',
        connector: 'webhook',
        url: `http://127.0.0.1:${receiver.port}/in?token=\${HOOK}`,
        signing_secret: '${SIGNING}',
        headers: { authorization: '${AUTHORIZATION}' },
        streams: ['whole'],
      };
      const database = {
        name: 'warehouse',
        connector: 'postgres',
        url: 'postgres://loader@127.0.0.1:9/crm',
        password: '${PASSWORD}',
        streams: ['whole'],
      };
      await space.configure('sent', [whole], { job: { destinations: [hook] } });
      await said(['run', 'sent.json'], 0);
      await space.configure('sent', [whole], { job: { destinations: [hook, database] } });
      await serve(people(21));
      receiver.reset((received, response) => {
        response
          .writeHead(400, { 'content-type': 'text/plain' })
          .end(`I do not take ${received.body} with ${received.headers.authorization}`);
      });
      await once(['run', 'sent.json'], 5);
      await once(['push', 'sent.json'], 5);
      await once(['push', 'sent.json', '--full', '--log-format', 'json'], 5);
      receiver.reset();
      await said(['status', 'sent.json'], 0);
      watch.lookAt('the page of rejects', await space.cdsync(['report', 'sent.json', '--out', '-'], secrets));
      await watch.lookThrough(space, 'sent', (file) => isData(file) || file.includes('/deliveries/'));
      nothingLeaked();
    },
    timeout,
  );

  it(
    'in what is told to people and programs outside',
    async () => {
      const at = (path: string) => `http://127.0.0.1:${receiver.port}/${path}?token=\${HOOK}`;
      const on = ['started', 'ok', 'failed', 'held', 'partial', 'interrupted', 'recovered'];
      const notify = [
        ...['json', 'slack', 'teams', 'text'].map((format) => ({ on, webhook: at(format), format, every: true })),
        { on, ping: at('ping'), every: true },
      ];
      const job = {
        notify,
        metrics: { textfile: './told.prom', otlp: `http://127.0.0.1:${receiver.port}` },
        after: [{ run: ['sh', '-c', 'env | grep CDSYNC_; echo "$HOOK" "$CDS_TOKEN"; cat "$CDSYNC_REPORT"'] }],
      };
      const lookAtMessages = () => {
        for (const { path, body } of receiver.received.splice(0))
          watch.look(`what ${path.split('?')[0]} was told`, body);
      };
      receiver.reset();
      const guards = { expect: [`select id from whole where email = '${canaryEmail('p1')}'`] };
      await serve(people(30));
      await space.configure('told', [filtered, { name: 'segments', source: 'segments' }], { job });
      await said(['run', 'told.json'], 0);
      const quoting = `no ${canary('filter')} for ${canaryEmail('asker')}`;
      await during({ kind: 'status', match: '/profiles', status: 400, message: quoting }, () =>
        said(['run', 'told.json', '--full'], 5),
      );
      await space.configure('told', [{ ...whole, guards }], { job });
      await said(['run', 'told.json'], 3);
      expect(receiver.received.length).toBeGreaterThan(40);
      lookAtMessages();
      receiver.reset((received, response) => {
        response
          .writeHead(400, { 'content-type': 'text/plain' })
          .end(`I know ${received.path} and ${canary('hook-token')}`);
      });
      await said(['run', 'told.json'], 3);
      lookAtMessages();
      receiver.reset();
      await said(['check', 'told.json'], 0);
      watch.look('the text file of metrics', await readFile(join(space.folder, 'told.prom'), 'utf8'));
      await watch.lookThrough(space, 'told', isData);
      nothingLeaked();
    },
    timeout,
  );

  it(
    'in what is said of a run that is stopped, or meets another',
    async () => {
      await serve(people(300));
      await space.configure('stopped', [{ ...filtered, page_size: 1 }]);
      await space.control('faults', { kind: 'slow', match: '/profiles', delay_ms: 1000, share: 1 });
      const child = space.spawn(['run', 'stopped.json', '--verbose', '--log-format', 'json'], secrets);
      const result = ended(child);
      let heard = '';
      child.stderr?.on('data', (chunk) => {
        heard += chunk;
      });
      while (!heard.includes('run_started')) await new Promise((resolve) => setTimeout(resolve, 20));
      await said(['run', 'stopped.json'], 75);
      await said(['status', 'stopped.json'], 0);
      await said(['plan', 'stopped.json'], 0);
      child.kill('SIGTERM');
      const stopped = await result;
      await space.clearFaults();
      expect(stopped.code).toBe(130);
      watch.lookAt('a run that was stopped', stopped);
      await said(['state', 'show', 'stopped.json'], 0);
      await watch.lookThrough(space, 'stopped', isData);
      nothingLeaked();
    },
    timeout,
  );

  it(
    'in what is said of forgetting a person',
    async () => {
      await serve(people(12));
      await space.configure('forgotten', [whole]);
      await said(['run', 'forgotten.json'], 0);
      await said(['forget', 'forgotten.json', 'whole', 'r3', '--even-if-absent'], 0);
      await watch.lookThrough(space, 'forgotten', isData);
      await watch.lookAtNames(space.folder);
      nothingLeaked();
      expect(watch.looked).toBeGreaterThan(300);
    },
    timeout,
  );

  it('except where a command is meant to show it', async () => {
    const { stdout } = await space.cdsync(['query', 'queried.json', 'select email from whole limit 1']);
    expect(stdout).toContain(`${marker}.p`);
    const shown = await space.cdsync(['diff', 'well.json', 'whole', '--show-values']);
    expect(shown.stdout).toContain(marker);
  });
});
