import { readFile, writeFile } from 'node:fs/promises';
import { createServer as createTlsServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { canary, canaryEmail } from '../fixtures/canaries.js';
import { openssl, selfSigned } from '../fixtures/self-signed.js';
import { ended } from '../fixtures/workspace.js';

import { canaryCommands, filtered, isData, people, type Row, secrets, timeout, whole } from './canary-commands.js';

const commands = canaryCommands();
const { said, once, during, serve, nothingLeaked } = commands;

describe('no secret and no personal value leaves by a login, a destination, a message or a stop', () => {
  it(
    'in messages about configurations and logins that are wrong',
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
        await commands.space.configure(`wrong_${name}`, [{ ...whole, ...stream }], { service });
        await said(['run', `wrong_${name}.json`], 2);
      }
      await commands.space.configure('login', [whole], { service: { retry: { patience: '0s' } } });
      await said(['run', 'login.json'], 4, { CDS_TOKEN: canary('token') });
      await said(['run', 'login.json'], 2, { CDS_TOKEN: `${canary('token')}\nof two lines` });
      await commands.space.configure('oauth', [whole], {
        service: { auth: { client_id: 'cid-none', client_secret: '${CLIENT_SECRET}' } },
      });
      await said(['run', 'oauth.json'], 4, { CLIENT_SECRET: canary('client-secret') });
      await during({ kind: 'status', match: 'oauth2', status: 400, message: `no ${canary('client-secret')}` }, () =>
        said(['run', 'oauth.json'], 4, { CLIENT_SECRET: canary('client-secret') }),
      );
      const env = join(commands.space.folder, 'broken.env');
      await writeFile(env, `CDS_TOKEN='${canary('token')}\n${canary('line')}\n`);
      await said(['run', 'login.json', '--env-file', env], 2);
      nothingLeaked();
    },
    timeout,
  );

  it.skipIf(!openssl)(
    'in messages about a connection that is not trusted',
    async () => {
      const server: Server = createTlsServer(selfSigned(), (_, response) => response.end(canary('tls')));
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const { port } = server.address() as AddressInfo;
      await commands.space.configure('tls', [filtered], { service: { base_url: `https://localhost:${port}` } });
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
    'in messages about destinations, well or not',
    async () => {
      await serve(people(20));
      const hook = {
        name: 'hook',
        connector: 'http',
        url: `http://127.0.0.1:${commands.receiver.port}/in?token=\${HOOK}`,
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
      await commands.space.configure('sent', [whole], { job: { destinations: [hook] } });
      await said(['run', 'sent.json'], 0);
      await commands.space.configure('sent', [whole], { job: { destinations: [hook, database] } });
      await serve(people(21));
      commands.receiver.reset((received, response) => {
        response
          .writeHead(400, { 'content-type': 'text/plain' })
          .end(`I do not take ${received.body} with ${received.headers.authorization}`);
      });
      await once(['run', 'sent.json'], 5);
      await once(['push', 'sent.json'], 5);
      // The first records are all refused, so the delivery ends: nothing arrives anywhere.
      await once(['push', 'sent.json', '--full', '--log-format', 'json'], 1);
      commands.receiver.reset();
      await said(['status', 'sent.json'], 0);
      commands.watch.lookAt(
        'the page of rejects',
        await commands.space.cdsync(['report', 'sent.json', '--out', '-'], secrets),
      );
      await commands.watch.lookThrough(commands.space, 'sent', (file) => isData(file) || file.includes('/deliveries/'));
      nothingLeaked();
    },
    timeout,
  );

  it(
    'in notifications, metrics and commands after the run',
    async () => {
      const at = (path: string) => `http://127.0.0.1:${commands.receiver.port}/${path}?token=\${HOOK}`;
      const on = ['started', 'ok', 'failed', 'held', 'partial', 'interrupted', 'recovered'];
      const notify = [
        ...['json', 'slack', 'teams', 'text'].map((format) => ({ on, webhook: at(format), format, every: true })),
        { on, ping: at('ping'), every: true },
      ];
      const job = {
        notify,
        metrics: { textfile: './notified.prom', otlp: `http://127.0.0.1:${commands.receiver.port}` },
        after: [{ run: ['sh', '-c', 'env | grep CDSYNC_; echo "$HOOK" "$CDS_TOKEN"; cat "$CDSYNC_REPORT"'] }],
      };
      const lookAtMessages = () => {
        for (const { path, body } of commands.receiver.received.splice(0))
          commands.watch.look(`what ${path.split('?')[0]} received`, body);
      };
      commands.receiver.reset();
      const guards = { expect: [`select id from whole where email = '${canaryEmail('p1')}'`] };
      await serve(people(30));
      await commands.space.configure('notified', [filtered, { name: 'segments', source: 'segments' }], { job });
      await said(['run', 'notified.json'], 0);
      const quoting = `no ${canary('filter')} for ${canaryEmail('asker')}`;
      await during({ kind: 'status', match: '/profiles', status: 400, message: quoting }, () =>
        said(['run', 'notified.json', '--full'], 5),
      );
      await commands.space.configure('notified', [{ ...whole, guards }], { job });
      await said(['run', 'notified.json'], 3);
      expect(commands.receiver.received.length).toBeGreaterThan(40);
      lookAtMessages();
      commands.receiver.reset((received, response) => {
        response
          .writeHead(400, { 'content-type': 'text/plain' })
          .end(`I know ${received.path} and ${canary('hook-token')}`);
      });
      await said(['run', 'notified.json'], 3);
      lookAtMessages();
      commands.receiver.reset();
      await said(['check', 'notified.json'], 0);
      commands.watch.look(
        'the text file of metrics',
        await readFile(join(commands.space.folder, 'notified.prom'), 'utf8'),
      );
      await commands.watch.lookThrough(commands.space, 'notified', isData);
      nothingLeaked();
    },
    timeout,
  );

  it(
    'in messages about a run that is stopped, or meets another',
    async () => {
      await serve(people(300));
      await commands.space.configure('stopped', [{ ...filtered, page_size: 1 }]);
      await commands.space.control('faults', { kind: 'slow', match: '/profiles', delay_ms: 1000, share: 1 });
      const child = commands.space.spawn(['run', 'stopped.json', '--verbose', '--log-format', 'json'], secrets);
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
      await commands.space.clearFaults();
      expect(stopped.code).toBe(130);
      commands.watch.lookAt('a run that was stopped', stopped);
      await said(['state', 'show', 'stopped.json'], 0);
      await commands.watch.lookThrough(commands.space, 'stopped', isData);
      nothingLeaked();
    },
    timeout,
  );

  it(
    'in messages about forgetting a person',
    async () => {
      await serve(people(12));
      await commands.space.configure('forgotten', [whole]);
      await said(['run', 'forgotten.json'], 0);
      await said(['forget', 'forgotten.json', 'whole', 'r3', '--even-if-absent'], 0);
      await commands.watch.lookThrough(commands.space, 'forgotten', isData);
      await commands.watch.lookAtNames(commands.space.folder);
      nothingLeaked();
      expect(commands.watch.looked).toBeGreaterThan(100);
    },
    timeout,
  );
});
