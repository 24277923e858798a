import { readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { LocalConfig } from '../config/config.js';
import { statOrUndefined, writeFileAtomically } from '../core/durable.js';
import { CdsyncError } from '../core/errors.js';
import { z } from '../core/zod.js';
import { JobLayout } from '../storage/layout.js';
import { makeFolder } from '../storage/storage.js';
import { families, type Labels, prometheusName, type Sample } from './samples.js';
import { readSamples, type StoredSamples } from './stored-samples.js';

/** node_exporter runs as another user. The file has figures and names of the configuration, nothing else. */
const fileMode = 0o644;

function labelText(labels: Labels): string {
  const escaped = (value: string) => value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
  return Object.entries(labels)
    .map(([name, value]) => `${name}="${escaped(value)}"`)
    .join(',');
}

/** Figures in the text format of Prometheus, version 0.0.4. */
function expositionText(samples: readonly Sample[]): string {
  return families
    .flatMap((family) => {
      const familySamples = samples.filter(({ name }) => name === family.name);
      if (familySamples.length === 0) return [];
      const name = prometheusName(family);
      const head = [`# HELP ${name} ${family.help}`, `# TYPE ${name} ${family.kind}`];
      return [...head, ...familySamples.map(({ labels, value }) => `${name}{${labelText(labels)}} ${value}`)];
    })
    .map((line) => `${line}\n`)
    .join('');
}

const ownerMark = '# cdsync ';

/** The storage folder of the configuration that has written a file; undefined for a file of an earlier version. */
function ownerOf(text: string): string | undefined {
  const line = text.startsWith(ownerMark) ? text.slice(ownerMark.length).split('\n', 1)[0] : undefined;
  try {
    return ownerSchema.parse(JSON.parse(line ?? '')).storage;
  } catch {
    return undefined;
  }
}

const ownerSchema = z.object({ storage: z.string() });

function jobsIn(text: string): string[] {
  return [...new Set([...text.matchAll(/^cdsync_run_status\{job="([a-z][a-z0-9_]*)"/gm)].map(([, job = '']) => job))];
}

/**
 * Refuses a file of another configuration: each would remove the figures of the other. A file belongs to the storage folder that it
 * names, as long as that has the figures of one of its jobs: a folder that was moved or removed claims nothing. A file that
 * names none is foreign if it has jobs that this configuration has never had. A job that was removed from this one has left its
 * figures in the storage folder.
 * @throws {CdsyncError} `metrics_shared`
 */
async function assertNotForeign(
  path: string,
  { storage, jobSummaries }: Pick<LocalConfig, 'storage' | 'jobSummaries'>,
) {
  const present = await readFile(path, 'utf8').catch(() => '');
  const owner = ownerOf(present);
  if (owner === storage) return;
  const jobNames = new Set(jobSummaries.map(({ name }) => name));
  for (const job of jobsIn(present)) {
    if (owner === undefined && jobNames.has(job)) continue;
    const hasLeft = (await readSamples(new JobLayout(owner ?? storage, job))) !== undefined;
    if (hasLeft === (owner === undefined)) continue;
    const whose = owner === undefined ? `job ${job}` : `job ${job}, storage ${owner}`;
    const message = `another configuration writes there (${whose}), so it stays as it is`;
    throw new CdsyncError(message, { code: 'metrics_shared', hint: 'give each configuration its own file' });
  }
}

/** How often the file is written again because another job has changed its figures at the same time. */
const maxRounds = 5;

/**
 * Writes the file that all jobs of a configuration may share: their figures together. Several processes may do so at once: each
 * has kept its own figures before, writes the figures it finds, and looks again. So the last one to write has seen all of them.
 * @param current the figures of the job that has run, also if they could not be kept
 * @throws {CdsyncError} `metrics_shared`; errors of the file system
 */
export async function writeTextFile(
  { storage, jobSummaries }: Pick<LocalConfig, 'storage' | 'jobSummaries'>,
  path: string,
  current: { readonly job: string; readonly kept: StoredSamples },
): Promise<void> {
  await assertNotForeign(path, { storage, jobSummaries });
  const compose = async () => {
    const all: Sample[] = [];
    for (const { name } of jobSummaries) {
      const kept = name === current.job ? current.kept : await readSamples(new JobLayout(storage, name));
      if (kept?.textfile === path) all.push(...(kept.samples as Sample[]));
    }
    return `${ownerMark}${JSON.stringify({ storage })}\n${expositionText(all)}`;
  };
  if ((await statOrUndefined(dirname(path))) === undefined) await makeFolder(dirname(path), 0o755);
  let text = await compose();
  for (let round = 0; round < maxRounds; round += 1) {
    await writeFileAtomically(path, text, fileMode);
    const composed = await compose();
    if (composed === text) return;
    text = composed;
  }
}
