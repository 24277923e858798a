import { readFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { expect, it } from 'vitest';

const statement = /^(?:import|export) (?!type )(?:[^;'"]*? from )?'([^']+)';/gm;

/** The files and packages that loading some files loads too: imports of types, and those within functions, load nothing. */
function loadedWith(...entries: readonly string[]): Set<string> {
  const loaded = new Set<string>();
  const files = entries.map((entry) => resolve('src', entry));
  for (let file = files.pop(); file !== undefined; file = files.pop()) {
    const name = relative(resolve('src'), file);
    if (loaded.has(name)) continue;
    loaded.add(name);
    for (const [, target = ''] of readFileSync(file, 'utf8').matchAll(statement)) {
      if (target.startsWith('.')) files.push(resolve(dirname(file), target.replace(/\.js$/, '.ts')));
      else if (!target.startsWith('node:')) loaded.add(target);
    }
  }
  return loaded;
}

/** The files that `cdsync run` asks for, if nothing fails. */
const ofRun = [
  ...['program', 'run', 'load', 'interruption', 'print-report', 'for-each-job', 'show-progress', 'engine-options'].map(
    (name) => `cli/${name}.ts`,
  ),
  ...['config/load', 'engine/job-files', 'engine/open-engine', 'engine/run/run-and-deliver', 'output/summary'].map(
    (name) => `${name}.ts`,
  ),
];

it('the help loads no package before the parser of the command line, and few files', () => {
  const loaded = [...loadedWith('cli/program.ts')];
  expect(loaded.filter((name) => !/^(?:cli|core)\/|^config\/problem\.ts$/.test(name))).toEqual([]);
  expect(loaded.length).toBeLessThan(24);
});

it.each([
  'cli/complete-words.ts',
  'cli/invalid-arguments.ts',
  'cli/next-step.ts',
  'config/env-file.ts',
  'delivery/deliver.ts',
  'delivery/destination-status.ts',
  'delivery/records/outbox.ts',
  'engine/after-run.ts',
  'engine/run/confirm-deletes.ts',
  'engine/run/deliver-job.ts',
  'engine/run/query-reader.ts',
  'engine/workflow/start-workflow.ts',
  'notify/channels.ts',
  'object-store/open-remote-job.ts',
  'snapshot/infer-text-formats.ts',
  'snapshot/split-candidates.ts',
  'yargs',
])('a run of a job that does not need %s does not load it', (name) => {
  const loaded = loadedWith(...ofRun);
  expect(loaded).toContain('snapshot/commit.ts');
  expect(loaded).not.toContain(name);
});
