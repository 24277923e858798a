import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
const segments = { name: 'segments', source: 'segments' };
const indexes = { name: 'indexes', source: 'indexes' };

beforeAll(async () => {
  space = await Workspace.open({ profiles: 300 });
});
afterAll(() => space.close());

/** A run as cron starts it: its exit code, `retry`, and the lines that are mailed. */
async function runScript(name: string, words: readonly string[] = []) {
  const { code, report, stderr } = await space.run(name, words);
  return { code, retry: report.retry, lines: stderr.split('\n').filter((line) => line !== '') };
}

async function withFault<T>(fault: object, work: () => Promise<T>): Promise<T> {
  await space.control('faults', fault);
  return work().finally(() => space.clearFaults());
}

describe('the lines of --quiet about a run', () => {
  it('that went well is nothing', async () => {
    await space.configure('well', [members]);
    expect(await runScript('well')).toEqual({ code: 0, retry: false, lines: [] });
  });

  it('in which the service refused a stream and a destination failed, is each of them, and no run as the next command', async () => {
    await writeFile(join(space.folder, 'blocked'), '');
    const after = [{ run: ['sh', '-c', `echo "$CDSYNC_RETRY" > '${join(space.folder, 'retry')}'`] }];
    const destinations = [{ name: 'lake', connector: 'duckdb', path: './blocked/x.duckdb', streams: ['members'] }];
    await space.configure('refused', [members, segments], { job: { after, destinations } });
    const { code, retry, lines } = await withFault({ kind: 'status', match: '/segments', status: 403 }, () =>
      runScript('refused'),
    );
    expect([code, retry, await readFile(join(space.folder, 'retry'), 'utf8')]).toEqual([5, false, 'false\n']);
    expect(lines).toEqual([
      expect.stringMatching(/^segments: failed: .*\[forbidden\]; /),
      expect.stringMatching(/^lake: members: failed: .*\[/),
      expect.stringMatching(
        /^see what the key may do: cdsync check refused\.json \(there is no good snapshot of segments yet\)$/,
      ),
    ]);
  });

  it('in which the whole service was away, is one line, and may be mended by a repetition', async () => {
    await space.configure('away', [members, segments, indexes], { service: { retry: { patience: '0s' } } });
    const { code, retry, lines } = await withFault({ kind: 'status', match: '/', status: 503 }, () =>
      runScript('away'),
    );
    expect([code, retry, lines]).toEqual([
      1,
      true,
      [
        expect.stringMatching(/^members, segments, indexes: failed: .*\[service_unavailable\]; /),
        expect.stringMatching(/^wait until the service answers: cdsync check away\.json /),
      ],
    ]);
  });

  it('in which a guard held a stream and another was refused, has the line of both', async () => {
    await space.configure('held', [{ ...members, guards: { min_rows: 9999 } }, segments]);
    const { code, retry, lines } = await withFault({ kind: 'status', match: '/segments', status: 503 }, () =>
      runScript('held'),
    );
    expect([code, retry]).toEqual([1, false]);
    expect(lines.length).toBe(3);
    expect(lines).toContainEqual(expect.stringMatching(/^members: held: min_rows: .*\[guard_min_rows\]; /));
    expect(lines.at(-1)).toMatch(/cdsync approve held\.json .*, or: cdsync discard held\.json /);
  });

  it('is at most ten failures and a count of the others', async () => {
    const wrong = Array.from({ length: 13 }, (_, n) => ({ ...members, name: `m${n}`, filter: { [`a${n}`]: 'x' } }));
    await space.configure('many', wrong);
    const { lines } = await runScript('many');
    expect([lines.length, lines[10]]).toEqual([12, 'and 3 more']);
  });
});

describe('a command that is printed', () => {
  const none = { CDS_TOKEN: '' };
  const run = ['run', 'pasted.json', '--env-file', 'env.nightly', '--quiet'];
  const commandsIn = (text: string) => [...text.matchAll(/cdsync (?:approve|discard|diff) [^,;:()`<\n]*/g)].map(String);

  beforeAll(async () => {
    await writeFile(join(space.folder, 'env.nightly'), `CDS_TOKEN=${space.service.token}\n`);
    await space.configure('pasted', [{ ...members, guards: { min_rows: 9999 } }]);
  });

  it('has the env file of the run: in its mail, in status without that file, in the report, and on the page', async () => {
    const { code, stderr } = await space.cdsync(run, none);
    expect(code).toBe(3);
    const status = await space.cdsync(['status', 'pasted.json'], none);
    const report = await space.cdsync(['report', 'pasted.json', '--out', '-'], none);
    for (const text of [stderr, status.stdout, report.stdout]) {
      const commands = commandsIn(text);
      expect(commands.length).toBeGreaterThan(1);
      for (const command of commands) expect(command).toMatch(/ --env-file \S*env\.nightly( |$)/);
    }
    for (const text of [status.stdout, report.stdout]) {
      const look = commandsIn(text).find((command) => command.startsWith('cdsync diff')) ?? '';
      expect((await space.cdsync(look.trim().split(' ').slice(1), none)).code).toBe(0);
    }
  });

  it('names every variable that is missing, and the env file that was ended', async () => {
    const service = { tenant_id: '${TENANT}', auth: { client_id: '${ID}', client_secret: '${SECRET}' } };
    await space.configure('unset', [members], { service });
    await writeFile(join(space.folder, 'env.other'), 'TENANT=x\n');
    const ended = await space.cdsync(['run', 'unset.json', '--env-file', 'env.other', '--quiet']);
    expect([ended.code, ended.stderr]).toEqual([
      2,
      expect.stringContaining('; set them in env.other: ID=… SECRET=…\n'),
    ]);
    const without = await space.cdsync(['run', 'unset.json', '--quiet']);
    expect(without.stderr).toContain('; set them: export TENANT=… ID=… SECRET=…, or --env-file .env\n');
  });
});
