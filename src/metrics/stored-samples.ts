import type { JobSummary } from '../config/config.js';
import { readStateIfUsable, writeStateFile } from '../core/durable.js';
import { z } from '../core/zod.js';
import type { JobLayout } from '../storage/layout.js';
import { afterRun, isFamily, type Labels, type Sample } from './samples.js';

const keptSchema = z.object({
  version: z.literal(1),
  /** Since when the counters count: milliseconds since the Unix epoch. */
  since: z.number(),
  /** Absolute path of the text file that has these figures. */
  textfile: z.string().nullable(),
  samples: z.array(
    z.object({ name: z.string().refine(isFamily), labels: z.record(z.string(), z.string()), value: z.number() }),
  ),
});

/** The figures of a job's runs, kept from run to run. */
export type StoredSamples = z.output<typeof keptSchema>;

/** Undefined if there are none, or none that can be read: counters then begin again, as Prometheus expects of them. */
export function readSamples(layout: JobLayout): Promise<StoredSamples | undefined> {
  return readStateIfUsable(layout.metrics, keptSchema);
}

function isIn({ streams, destinations }: JobSummary): (labels: Labels) => boolean {
  const streamNames = new Set(streams.map(({ name }) => name));
  const deliveries = new Set(destinations.flatMap(({ name, streams: of }) => of.map((stream) => `${name} ${stream}`)));
  return ({ stream, destination }) => {
    if (destination !== undefined) return deliveries.has(`${destination} ${stream}`);
    return stream === undefined || streamNames.has(stream);
  };
}

/** The samples that a run adds. */
interface SamplesOfRun {
  /** The names in the job as it is now. */
  readonly job: JobSummary;
  /** The text file of the job. */
  readonly textfile: string | undefined;
  readonly run: readonly Sample[];
  /** Milliseconds since the Unix epoch. */
  readonly now: number;
}

/**
 * Adds the figures of a run to those of a job.
 * @returns the samples that are stored now, and the error that prevented the writing
 */
export async function keepSamples(
  layout: JobLayout,
  { job, textfile, run, now }: SamplesOfRun,
): Promise<{ kept: StoredSamples; error?: unknown }> {
  const before = await readSamples(layout);
  const kept: StoredSamples = {
    version: 1,
    since: before?.since ?? now,
    textfile: textfile ?? null,
    samples: afterRun((before?.samples ?? []) as Sample[], run, isIn(job)) as StoredSamples['samples'],
  };
  try {
    await writeStateFile(layout.metrics, kept);
    return { kept };
  } catch (error) {
    return { kept, error };
  }
}
