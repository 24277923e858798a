import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { type Block, blocksOf, writeFiles } from '../fixtures/recipes.js';
import { shell } from '../fixtures/shell.js';
import { Workspace } from '../fixtures/workspace.js';

const timeout = 600_000;

let space: Workspace;
let blocks: Block[];
beforeAll(async () => {
  space = await Workspace.open({ profiles: 300 });
  blocks = await blocksOf('deployment.md');
  await writeFiles(
    space,
    blocks,
    new Map([
      ['/srv/jobs', space.folder],
      ['nightly.yaml', 'nightly.json'],
    ]),
  );
  await space.configure('nightly', [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }]);
});
afterAll(() => space.close());

it('the CronJob never runs twice at once, has enough memory, and mounts the folders that the image reads', () => {
  const [text = ''] = blocks.filter(({ file }) => file === 'cronjob.yaml').map((block) => block.text);
  const documents = parseAllDocuments(text).map((document) => document.toJS());
  const { spec } = documents.find(({ kind }) => kind === 'CronJob');
  const { template, podFailurePolicy } = spec.jobTemplate.spec;
  const [container] = template.spec.containers;
  expect([spec.concurrencyPolicy, template.spec.restartPolicy]).toEqual(['Forbid', 'Never']);
  expect(template.spec.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 1000 });
  expect(podFailurePolicy.rules[0].onExitCodes.values).toEqual([2, 3, 4]);
  expect(container.resources.limits.memory).toBe('1Gi');
  expect(container.volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath)).toEqual([
    '/work',
    '/etc/cdsync',
  ]);
});

/** Fakes of the schedulers' own modules: decorators that call the function. */
const fakes: Record<string, string> = {
  'airflow/__init__.py': '',
  'airflow/decorators.py':
    'def dag(**_):\n    return lambda f: f\ndef task(**_):\n    return lambda f: lambda: print("GOT", f())\n',
  'airflow/exceptions.py':
    'class AirflowException(Exception): pass\nclass AirflowFailException(AirflowException): pass\n',
  'dagster.py': [
    'class Failure(Exception):',
    '    def __init__(self, text, allow_retries): super().__init__(f"{text} {allow_retries}")',
    'def AssetSpec(name, **_): return name',
    'def MaterializeResult(**fields): return fields',
    'def multi_asset(**_): return lambda f: f',
    '',
  ].join('\n'),
};

describe.each([
  ['Airflow', 'dags/cdsync_nightly.py', 'import cdsync_nightly'],
  ['Dagster', 'cdsync_asset.py', 'import cdsync_asset; print("GOT", list(cdsync_asset.cdsync_nightly()))'],
])('the recipe for %s', (_, file, script) => {
  it(
    'compiles, runs the job, reads its report, and fails if a person must decide (with a fake scheduler)',
    async () => {
      await promisify(execFile)('python3', ['-m', 'py_compile', join(space.folder, file)]);
      await mkdir(join(space.folder, 'fakes', 'airflow'), { recursive: true });
      for (const [name, text] of Object.entries(fakes)) await writeFile(join(space.folder, 'fakes', name), text);
      const run = () => shell(space, `PYTHONPATH=fakes:dags:. python3 -c '${script}'`);
      await space.configure('nightly', [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }]);
      const good = await run();
      expect([good.code, good.code === 0 ? '' : good.stderr]).toEqual([0, '']);
      expect(good.stdout).toMatch(/GOT .*300/);
      await space.configure('nightly', [
        { name: 'members', source: 'index_profiles', index: 'loyalty_members', guards: { min_rows: 9999 } },
      ]);
      const held = await run();
      expect([held.code, /held \(3\)/.test(held.stderr)]).toEqual([1, true]);
    },
    timeout,
  );
});
