import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { canary, canaryEmail, marker } from '../fixtures/canaries.js';

import { canaryCommands, filtered, isData, people, secrets, timeout, whole } from './canary-commands.js';

const commands = canaryCommands();
const { said, once, during, serve, nothingLeaked } = commands;

describe('no secret and no personal value is seen', () => {
  it(
    'in what commands say of a job that goes well, day after day',
    async () => {
      await serve(people(60));
      await commands.space.configure('well', [
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
      await commands.watch.lookThrough(commands.space, 'well', isData);
      nothingLeaked();
    },
    timeout,
  );

  it(
    'in runs that are held, approved and discarded',
    async () => {
      await serve(people(40));
      const guards = {
        max_changed: 0,
        unique: ['tag'],
        max_null: { name: 0 },
        expect: [`select id from whole where email = '${canaryEmail('p1')}'`],
      };
      await commands.space.configure('held', [{ ...whole, guards }]);
      await said(['run', 'held.json'], 3);
      await said(['status', 'held.json'], 0);
      await said(['plan', 'held.json'], 0);
      const { jobs } = (await commands.space.run('held', [], secrets)).report;
      await once(['approve', 'held.json', String(jobs[0]?.run_id)], 0);
      await serve(people(3));
      const { report } = await commands.space.run('held', [], secrets);
      await commands.watch.lookThrough(commands.space, 'held', isData);
      await once(['discard', 'held.json', String(report.jobs[0]?.run_id)], 0);
      await serve([]);
      await said(['run', 'held.json'], 3);
      await commands.watch.lookThrough(commands.space, 'held', isData);
      nothingLeaked();
    },
    timeout,
  );

  it(
    'in messages about responses that are wrong',
    async () => {
      await serve(people(30));
      await commands.space.configure('faulty', [{ ...filtered, page_size: 10 }], {
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
      const location = `https://other.example.com/${canary('path')}?email=${canaryEmail('where')}`;
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
          commands.watch.lookAt(
            kind,
            await commands.space.cdsync(['run', 'faulty.json', '--verbose', '--log-format', 'json'], secrets),
          );
        });
      }
      await commands.watch.lookThrough(commands.space, 'faulty', isData);
      nothingLeaked();
    },
    timeout,
  );

  it(
    'in messages about records that are wrong',
    async () => {
      await commands.space.configure('odd', [{ ...whole, guards: { max_rejected: 0 } }]);
      const odd = [
        `{"id": {"of": "${canary('id')}"}, "attributes": {"email": "${canaryEmail('odd')}"}}`,
        `{"id": "a", "attributes": "${canary('text')}"}`,
        `{"attributes": {"email": "${canaryEmail('absent')}"}}`,
        `"${canary('record')}"`,
        `{"id": "b", "attributes": {"email": "${canaryEmail('b')}", "score": "${canary('score')}", "when": 1e999}}`,
      ];
      await serve(odd);
      await said(['run', 'odd.json'], 3);
      await said(['report', 'odd.json'], 0);
      commands.watch.lookAt(
        'the page of a held run',
        await commands.space.cdsync(['report', 'odd.json', '--out', '-'], secrets),
      );
      await said(['plan', 'odd.json'], 0);
      await commands.space.configure('strict', [
        { ...whole, columns: { name: { type: 'integer' } }, contract: { columns: 'freeze', types: 'freeze' } },
      ]);
      await serve(people(5, () => ({ name: '12' })));
      await said(['run', 'strict.json'], 0);
      await serve(people(5, (n) => ({ name: canary(`no-number-${n}`), fresh: canary('fresh') })));
      await said(['run', 'strict.json'], 1);
      await said(['check', 'strict.json', '--contract'], 1);
      await commands.space.configure('computed', [
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
      for (const job of ['odd', 'strict', 'computed']) await commands.watch.lookThrough(commands.space, job, isData);
      nothingLeaked();
    },
    timeout,
  );

  it(
    'in messages about keys that are looked up',
    async () => {
      const keys = [{ email: canaryEmail('key') }, { phone: canary('key-phone') }];
      const realtime = { source: 'realtime_profiles', collection: 'col-1', keys };
      await commands.space.configure('keyed', [
        { name: 'posted', ...realtime },
        { name: 'asked', ...realtime, method: 'get' },
        { name: 'listed', source: 'realtime_profiles', collection: 'col-1', keys: { file: './keys.csv' } },
      ]);
      await writeFile(join(commands.space.folder, 'keys.csv'), `email\n${canaryEmail('file')}\n`);
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
      await said(['lookup', 'keyed.json', 'col-1', `email=${canaryEmail('absent')}`], 1);
      await said(['lookup', 'keyed.json', 'col-1', canary('no-key')], 2);
      await writeFile(join(commands.space.folder, 'keys.csv'), `email\n"${canaryEmail('file')}\n`);
      await said(['run', 'keyed.json'], 5);
      await writeFile(join(commands.space.folder, 'keys.csv'), `email,phone\n${canaryEmail('file')}\n`);
      await said(['run', 'keyed.json'], 5);
      await commands.watch.lookThrough(commands.space, 'keyed', isData);
      nothingLeaked();
    },
    timeout,
  );

  it(
    'in messages about discovery, workflows and queries that fail',
    async () => {
      await serve(people(30));
      const service = ['--base-url', commands.space.service.url, '--tenant-id', commands.space.service.tenantId];
      await said(['discover', ...service, '--totals', '--filters'], 0);
      await said(['init', 'made.yaml', ...service, '--yes', '--force'], 0);
      await during({ kind: 'status', match: '/profiles', status: 400, message: `no ${canaryEmail('p1')}` }, () =>
        said(['discover', ...service], 1),
      );
      commands.workflows.plans.set('cg-ok', { states: ['succeeded'] });
      commands.workflows.plans.set('cg-bad', {
        states: ['failed'],
        error: { type: 'broken', message: `the row of ${canaryEmail('row')} is broken`, attribution: 'customer' },
      });
      const flows = ['--base-url', commands.workflows.url, '--tenant-id', commands.space.service.tenantId];
      await said(['workflow', 'start', 'cg-ok', ...flows, '--wait'], 0);
      await said(['workflow', 'start', 'cg-bad', ...flows, '--wait'], 1);
      await said(['workflow', 'status', 'wr-1', ...flows], 0);
      await commands.space.configure('queried', [whole]);
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

  it('except where a command is meant to show it', async () => {
    const { stdout } = await commands.space.cdsync(['query', 'queried.json', 'select email from whole limit 1']);
    expect(stdout).toContain(`${marker}.p`);
    const shown = await commands.space.cdsync(['diff', 'well.json', 'whole', '--show-values']);
    expect(shown.stdout).toContain(marker);
    expect(commands.watch.looked).toBeGreaterThan(200);
  });
});
