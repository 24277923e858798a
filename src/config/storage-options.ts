import { z } from '../core/zod.js';
import type { S3Options } from '../sdk/index.js';
import { checkPath, duration, flag, map, type OptionProblem, option, path } from '../sdk/option.js';
import { s3Options, s3Rules } from '../sdk/s3/index.js';

const bucket = map({
  url: option(z.string().regex(/^s3:\/\/[a-z0-9][a-z0-9.-]+(\/[^\s?#]*)?$/), {
    description:
      'Bucket and prefix. Each job has a folder below it. Needs the packages @aws-sdk/client-s3 and @aws-sdk/lib-storage.',
    example: 's3://crm-snapshots/cdsync',
    allowed: 's3://bucket or s3://bucket/prefix',
  }),
  cache: path({
    description:
      'Folder on this machine that a run works in. It may be lost at any time; if it is kept, later runs download less from the bucket.',
    example: './cache',
  }).prefault('./cache'),
  ...s3Options,
  takeover_after: duration({
    description:
      'A machine that works on a job says so every minute, or three times in this time if that is more often. If it has been silent for this long, another one takes its run over.',
    example: '3m',
  }).prefault('3m'),
  single_machine: flag({
    description:
      'Says that never more than one machine runs the jobs. cdsync then also accepts a bucket without conditional writes, where two machines could overwrite the work of each other.',
    example: false,
  }).prefault(false),
});

const minSilenceSeconds = 5;

function bucketRules(value: unknown): OptionProblem[] {
  const options = value as Readonly<Record<string, unknown>>;
  const findings = s3Rules(options);
  const { takeover_after: silence } = options;
  if (typeof silence === 'string' && /^\d+(\.\d+)?\s*(ms|s)$/.test(silence)) {
    const seconds = Number.parseFloat(silence) / (silence.endsWith('ms') ? 1000 : 1);
    if (seconds < minSilenceSeconds)
      findings.push({ path: ['takeover_after'], message: `must be at least ${minSilenceSeconds}s` });
  }
  return findings;
}

const addressNotFolder = 'is an address, not a folder; write a bucket as { url: s3://bucket/prefix }';

/** The `storage:` part: a folder, or a bucket with a folder as its cache. */
export const storageSchema = option(
  z.union([
    option(
      z
        .string()
        .min(1)
        .refine((path) => !/^[a-z][a-z0-9+.-]+:\/\//i.test(path), addressNotFolder)
        .meta({ pattern: '^(?![A-Za-z][A-Za-z0-9+.-]+://)' }),
      {
        description: 'A folder on this machine.',
        example: './data',
        allowed: 'text that is not empty',
      },
    ),
    option(bucket, { description: 'A bucket: jobs may run on any machine.', check: bucketRules }),
  ]),
  {
    description:
      'Folder for everything that cdsync keeps and publishes, with a folder for each job. Relative paths are relative to the YAML file. A map with `url` keeps it in a bucket instead.',
    example: './data',
    allowed: 'a folder, or a map: { url: s3://bucket/prefix }',
    check: (storage) => (typeof storage === 'string' ? checkPath(storage) : []),
  },
);

/** A bucket that the jobs are kept in. */
export type BucketOptions = Omit<S3Options, 'notice' | 'signal'> & {
  /** In milliseconds. */
  readonly takeoverAfter: number;
  readonly singleMachine: boolean;
};
