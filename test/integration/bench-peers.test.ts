import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { indexOf } from '../bench/pages.js';
import { Comparison } from '../bench/peers/comparison.js';
import type { Program } from '../bench/peers/programs.js';
import { makePython } from '../bench/peers/python.js';
import { peersTable } from '../bench/peers/table.js';
import { type ServedService, serve, type Usage } from '../bench/process.js';

const cdsync = join(import.meta.dirname, '..', '..', 'dist', 'src', 'cli', 'main.js');
const profiles = 100;
let folder: string;
let service: ServedService;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-peers-'));
  service = await serve(cdsync, ['--profiles', String(profiles)]);
});
afterAll(async () => {
  await service.stop();
  await rm(folder, { recursive: true });
});

/** A program whose runs take these seconds, one after the other, and that reports this number of ids. */
function program(name: string, laterRuns: Program['laterRuns'], seconds: number[], ids: number): Program {
  const usage: Omit<Usage, 'wallSeconds' | 'cpuSeconds'> = { code: 0, stdout: '', stderr: '', peakMb: 100 };
  const run = async () => {
    const next = seconds.shift() ?? Number.NaN;
    return { ...usage, wallSeconds: next, cpuSeconds: next * 2 };
  };
  return { name, laterRuns, begin: async () => ({ run, count: async () => ids }) };
}

async function compare(programs: readonly Program[], rounds: number) {
  const comparison = new Comparison({ service, index: await indexOf(service), pageSize: 100 }, programs);
  for (let round = 0; round < rounds; round += 1) await comparison.round(join(folder, 'round'));
  const properties = { profiles, pageSize: 100, rounds, date: new Date('2026-01-02T03:04:05Z') };
  return { failed: comparison.failed, table: peersTable(comparison.results(), properties) };
}

describe('the comparison with other programs', () => {
  it('shows medians, and measures the runs that differ', async () => {
    const ours = program('cdsync', 'unknowing', [8, 1, 6, 3, 7, 2], profiles);
    const plain = program('plain', 'same', [14, 13, 15], profiles);
    // Of so few profiles, the days that pass in the service insert and delete none.
    const { failed, table } = await compare([ours, plain], 3);
    expect(failed).toBe(0);
    const own = ['7.0 s / 14.0 s / 100 MB', '2.0 s / 4.0 s / 100 MB', 'all is read again: not measured apart'];
    expect(table).toContain(`| cdsync | ${own.join(' | ')} |`);
    expect(table).toContain('| plain | 14.0 s / 28.0 s / 100 MB | the first run again | the first run again |');
    expect(table).toContain('| plain | 2.0 / 2.0 / 1.0 | 7.0 / 7.0 / 1.0 | 7.0 / 7.0 / 1.0 |');
  });

  it('shows no figure of a program that did not return all ids', async () => {
    const { failed, table } = await compare([program('short', 'all', [1, 1, 1], profiles - 1)], 1);
    expect(failed).toBe(1);
    expect(table).toContain('| short | not run: it failed, or did not return all ids (first) | | |');
  });

  it('names the missing program if there is no Python', async () => {
    expect(await makePython(join(folder, 'python'), [], 'no-such-python')).toEqual({
      missing: 'there is no no-such-python',
    });
  });
});
