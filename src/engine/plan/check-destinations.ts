import type { JobConfig } from '../../config/config.js';
import type { ReportedError } from '../../core/run.js';
import { checkDestination } from '../../deliver/check-destination.js';
import type { Lack } from '../../sdk/destination.js';
import type { Engine } from '../open-engine.js';
import { reportError } from '../report-job.js';
import { serviceAccess } from '../service-access.js';

/** What `cdsync check` found out about a destination. */
export interface CheckedDestination {
  name: string;
  connector: string;
  streams: string[];
  status: 'ok' | 'failed';
  /** Where it came to; null if it was not reached. */
  reached: string | null;
  /** Permissions and the like that a load would lack. */
  lacks: { message: string; hint: string | null }[];
  /** What only a load can show. */
  untried: string | null;
  error: (ReportedError & { auth: boolean }) | null;
}

function shown({ message, hint }: Lack) {
  return { message, hint: hint ?? null };
}

/** Tries each destination of a job: connects, logs in, and looks for permissions. Writes nothing. */
export async function checkDestinations(engine: Engine, job: JobConfig): Promise<CheckedDestination[]> {
  const { signal, notice, client } = engine;
  const context = { signal, notice, layout: engine.layoutOf(job.name), service: serviceAccess(client, notice) };
  const checked: CheckedDestination[] = [];
  for (const destination of job.destinations) {
    const { reached, lacks, untried, error } = await checkDestination(context, destination);
    const { name, connector, streams } = destination;
    checked.push({
      name,
      connector: connector.name,
      streams: [...streams],
      status: error === undefined && lacks.length === 0 ? 'ok' : 'failed',
      reached,
      lacks: lacks.map(shown),
      untried: untried ?? null,
      error: error === undefined ? null : { ...reportError(error), auth: error.kind === 'auth' },
    });
  }
  return checked;
}
