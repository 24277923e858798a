import type { StreamConfig } from '../../config/config.js';
import { CdsyncError } from '../../core/errors.js';
import { nearest } from '../../core/nearest.js';
import type { RunContext } from '../run-context.js';

/** The streams that a run reads. @throws {CdsyncError} `stream_not_found`, `usage` */
export function chosenStreams(context: RunContext): readonly StreamConfig[] {
  const named = namedStreams(context);
  if (context.range === undefined) return named;
  const byTime = named.filter(({ reads }) => reads.windows !== undefined);
  if (byTime.length > 0) return byTime;
  throw new CdsyncError('no stream of the run is read by time, so there is nothing to read again', {
    code: 'usage',
    kind: 'configuration',
    hint: '--from and --to are for the sources that have the option `since`',
  });
}

function namedStreams({ job, only }: RunContext): readonly StreamConfig[] {
  if (only === undefined) return job.streams;
  const known = new Map(job.streams.map((stream) => [stream.name, stream]));
  return only.map((name) => {
    const stream = known.get(name);
    if (stream !== undefined) return stream;
    const near = nearest(name, known.keys());
    throw new CdsyncError(`job "${job.name}" has no stream "${name}"`, {
      code: 'stream_not_found',
      kind: 'configuration',
      hint: `its streams: ${(near.length > 0 ? near : [...known.keys()]).join(', ')}`,
    });
  });
}
