import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { measure } from '../../bench/process.js';

/** Uses 0.3 CPU s and holds 50 MB until then. */
const work = 'const kept = Buffer.alloc(50 << 20, 1); while (process.cpuUsage().user < 300_000) kept[0] += 1;';
/** Starts the work beside itself and waits for it. */
const parent = `require('node:child_process').spawnSync(process.execPath, ['-e', ${JSON.stringify(work)}])`;

it('counts the CPU time and the memory of the processes that a program starts', async () => {
  const alone = await measure(process.execPath, ['-e', '0']);
  const { code, cpuSeconds, peakMb } = await measure(process.execPath, ['-e', parent]);
  expect(code).toBe(0);
  expect(cpuSeconds).toBeGreaterThan(0.3);
  expect(cpuSeconds).toBeGreaterThan(alone.cpuSeconds);
  expect(peakMb).toBeGreaterThan(50);
});

it('returns the exit code and both outputs', async () => {
  const program = 'console.log("out"); console.error("err"); process.exitCode = 3';
  expect(await measure(process.execPath, ['-e', program])).toMatchObject({ code: 3, stdout: 'out\n', stderr: 'err\n' });
});

it('writes the output to a file if one is named', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-measure-'));
  const output = join(folder, 'out.txt');
  expect((await measure('echo', ['a  b', '$HOME'], { output })).stdout).toBe('');
  expect(await readFile(output, 'utf8')).toBe('a  b $HOME\n');
  await rm(folder, { recursive: true });
});
