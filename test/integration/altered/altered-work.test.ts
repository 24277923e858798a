import { cp, mkdir, readdir, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { filesHolding } from '../../fixtures/files-holding.js';
import { Receiver } from '../../fixtures/webhook-server.js';
import { Workspace } from '../../fixtures/workspace.js';

const content = 'the-secret-of-another';
let space: Workspace;
let receiver: Receiver;
let runId = '';
const secret = () => join(space.folder, 'trap', 'secret');
const folder = () => space.jobFolder('nightly');
const kept = () => `${space.folder}-kept`;

/** A job with caches, an outbox and a held run. */
beforeAll(async () => {
  space = await Workspace.open({ profiles: 5 });
  receiver = await Receiver.open();
  const serve = (count: number) =>
    space.control('profiles', {
      index: 'made',
      records: Array.from({ length: count }, (_, n) =>
        JSON.stringify({ id: `p${n}`, index_id: 'made', attributes: { n } }),
      ),
    });
  await serve(30);
  const made = { name: 'made', source: 'index_profiles', index: 'made', guards: { max_deleted: 5 } };
  const url = `http://127.0.0.1:${receiver.port}/x`;
  const destinations = [{ name: 'api', connector: 'http', url, body: { id: '{{ id }}' }, streams: ['made'] }];
  await space.configure('nightly', [made] as never, { job: { destinations } });
  await space.runWell('nightly');
  await serve(10);
  const held = await space.run('nightly');
  expect(held.code).toBe(3);
  runId = held.report.jobs[0]?.run_id ?? '';
  await mkdir(join(space.folder, 'trap'));
  await writeFile(secret(), content, { mode: 0o600 });
  await cp(folder(), kept(), { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
}, 120_000);
afterAll(async () => {
  await space.close();
  await receiver.close();
  await rm(kept(), { recursive: true, force: true });
});

/** One file of each folder and kind. */
async function privateFiles(): Promise<string[]> {
  const entries = await readdir(join(kept(), '.cdsync'), { recursive: true, withFileTypes: true });
  const kinds = new Map<string, string>();
  for (const entry of entries.filter(
    (each) => each.isFile() && !/lock|store\.duckdb/.test(`${each.parentPath}/${each.name}`),
  ))
    kinds.set(`${entry.parentPath}/*.${entry.name.split('.').pop()}`, join(entry.parentPath, entry.name));
  return [...kinds.values()].map((path) => path.slice(kept().length + 1));
}

const alterations: readonly [string, (path: string) => Promise<unknown>][] = [
  ['a link to a secret', (path) => symlink(secret(), path)],
  [
    'another document',
    (path) => writeFile(path, `{"version":1,"path":"${secret()}","files":["${secret()}"],"keys":null}\n`),
  ],
  ['half a file', (path) => writeFile(path, 'PAR1')],
];

it('a change of another program to a cache, an outbox, a held run or a log is refused or of no effect', {
  timeout: 900_000,
}, async () => {
  const files = await privateFiles();
  for (const part of ['known/', 'runs/', 'deliveries/']) expect(files.join()).toContain(part);
  const wrong: string[] = [];
  for (const file of files) {
    for (const [what, make] of alterations) {
      await rm(folder(), { recursive: true, force: true });
      await cp(kept(), folder(), { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
      await rm(join(folder(), file));
      await make(join(folder(), file));
      for (const words of [
        ['status'],
        ['forget', 'p1', '--everywhere', '--dry-run'],
        ['push'],
        ['approve', runId],
        ['run'],
      ]) {
        await utimes(secret(), new Date(0), new Date(1000));
        const [command = '', ...rest] = words;
        const { code, stdout, stderr } = await space.cdsync([command, 'nightly.json', ...rest]);
        const place = `${what} (${file}), ${command}`;
        if (`${stdout}${stderr}`.includes(content)) wrong.push(`${place}: shows the secret`);
        if (
          stderr.includes('[unexpected]') ||
          !(stderr.includes('[not_held]') ? [2] : [0, 1, 3, 5]).includes(code ?? -1)
        )
          wrong.push(`${place}: ${code} ${stderr}`);
        if ((await stat(secret())).atimeMs !== 0) wrong.push(`${place}: reads the secret`);
      }
      await rm(join(folder(), file), { recursive: true, force: true });
      const holding = (await filesHolding(space.folder, [content])).filter((path) => path !== 'trap/secret');
      if (holding.length > 0) wrong.push(`${what} (${file}): the secret is in ${holding}`);
    }
  }
  expect(wrong).toEqual([]);
});
