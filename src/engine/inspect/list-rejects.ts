import { CdsyncError } from '../../core/errors.js';
import { nameHint } from '../../core/suggestions.js';
import { listedRejects, type Reject, rejectsPath } from '../../delivery/delivery-state.js';
import type { JobLayout } from '../../storage/layout.js';

/** A value, or a record, that a destination cannot hold. */
interface ListedReject extends Reject {
  readonly destination: string;
  readonly stream: string;
}

function known(what: 'stream' | 'destination', names: readonly string[], wanted: readonly string[] = []): void {
  for (const name of wanted) {
    if (names.includes(name)) continue;
    throw new CdsyncError(`no destination of the job ${what === 'stream' ? 'gets stream' : 'is called'} "${name}"`, {
      code: `${what}_not_found`,
      hint:
        names.length === 0
          ? 'add one under `destinations:`; docs/destinations.md has examples'
          : nameHint(`its ${what}s`, name, names),
    });
  }
}

/**
 * The values that destinations of a job cannot hold, as their last deliveries left them.
 * @throws {CdsyncError} `destination_not_found`, `stream_not_found`
 */
export async function listRejects(
  layout: JobLayout,
  destinations: readonly { readonly name: string; readonly streams: readonly string[] }[],
  only: { readonly destinations?: readonly string[] | undefined; readonly streams?: readonly string[] | undefined },
): Promise<ListedReject[]> {
  known(
    'destination',
    destinations.map(({ name }) => name),
    only.destinations,
  );
  known('stream', [...new Set(destinations.flatMap(({ streams }) => streams))], only.streams);
  const rejects: ListedReject[] = [];
  for (const { name: destination, streams } of destinations) {
    if (only.destinations?.includes(destination) === false) continue;
    for (const stream of streams) {
      if (only.streams?.includes(stream) === false) continue;
      for (const { key, column, reason, run_id } of await listedRejects(rejectsPath(layout, destination, stream)))
        rejects.push({ destination, stream, key, column, reason, run_id });
    }
  }
  return rejects;
}
