import { spawnSync } from 'node:child_process';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { shell } from '../fixtures/shell.js';
import { Workspace } from '../fixtures/workspace.js';

const hasPty = spawnSync('script', ['--version']).error === undefined;

let space: Workspace;
beforeAll(async () => {
  // Each response takes a while, so that there is something to see.
  space = await Workspace.open({ profiles: 6000, latencyMs: 300 });
  await space.configure('job', [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }]);
});
afterAll(() => space.close());

/** The output of a run to a terminal of 60 columns. */
async function onTerminal(...variables: string[]): Promise<string> {
  const command = `stty cols 60 rows 10; ${variables.join(' ')} cdsync run job.json`;
  const { stdout } = await shell(space, `env -u CI -u NO_COLOR TERM=xterm script -qec '${command}' /dev/null`);
  return stdout;
}

it.skipIf(!hasPty)(
  'a terminal shows a block that fits and is gone at the end, then the summary (skipped: no script)',
  async () => {
    const first = await onTerminal();
    // No run knew the number: it was asked for.
    expect(first).toMatch(/members.*of 6,000 rows/);
    expect(first).toMatch(/reading, about .* left/);
    expect(first).toMatch(/members {2}[\d,]+ rows/);
    expect(first).toMatch(/\d s: reading/);
    const second = await onTerminal();
    expect(second).toMatch(/members.*of 6,000 rows/);
    expect(second).toMatch(/\d+ %/);
    const block = second.split('\n').filter((line) => /reading|of 6,000/.test(line));
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control sequences have no width on a terminal.
    const widths = block.map((line) => line.replaceAll(/\x1b\[\d*[A-Z]|\r/g, '').length);
    expect(Math.max(...widths)).toBeLessThan(60);
    // After the last removal of the block, the output is the summary, and nothing of the block.
    expect(second.slice(second.lastIndexOf('\x1b[0J'))).toMatch(/^\S*job job: ok/);
  },
  120_000,
);

it.skipIf(!hasPty)(
  'a terminal that can do no more, and one without colours, gets plain lines (skipped: no script)',
  async () => {
    expect(await onTerminal('TERM=dumb')).not.toContain('\x1b');
    expect(await onTerminal('NO_COLOR=1')).not.toContain('\x1b');
  },
  120_000,
);
