import type { ReportedError } from '../../core/run-report.js';
import { isRefusedDelivery } from '../../delivery/deliver.js';
import type { DeliveryContext } from '../../delivery/delivery.js';
import type { PlannedDelivery } from '../../delivery/table/dry-run.js';
import { reportError } from '../report-job.js';
import { type DeliverJobOptions, planDeliveriesOfJob, requireDestinations } from './deliver-job.js';

/** The planned delivery of one stream. `plan` is null if it would be refused or is unknown; `why` has the reason. */
export interface PushPlanEntry {
  readonly name: string;
  readonly connector: string;
  readonly stream: string;
  readonly action: string;
  readonly why: string;
  readonly plan: PlannedDelivery | null;
  readonly error: ReportedError | null;
}

/** The document of `cdsync push --dry-run --json` for one job. */
export interface PushPlan {
  readonly job: string;
  /** `partial`: a delivery would be refused. `failed`: a destination could not be asked. */
  readonly status: 'ok' | 'partial' | 'failed';
  /** Whether all failures are about a login or a right. */
  readonly auth: boolean;
  readonly destinations: readonly PushPlanEntry[];
}

interface ShownValues {
  readonly showsValues: boolean;
  /** Takes secrets out of the requests that are shown. */
  readonly hide: (text: string) => string;
}

function withoutSecrets(plan: PlannedDelivery, hide: ShownValues['hide']): PlannedDelivery {
  if (plan.requests === undefined) return plan;
  const first = plan.requests.first.map(({ method, url, headers, body }) => {
    const shown = Object.entries(headers).map(([name, value]) => [name, hide(value)]);
    return { method, url: hide(url), headers: Object.fromEntries(shown), body: hide(body) };
  });
  return { ...plan, requests: { ...plan.requests, first } };
}

/** Plans the deliveries of a push. It writes nothing. @throws {CdsyncError} `destination_not_found`, `stream_not_found` */
export async function planPush(
  context: DeliveryContext,
  options: Omit<DeliverJobOptions, 'progress'>,
  values: ShownValues = { showsValues: false, hide: (text) => text },
): Promise<PushPlan> {
  requireDestinations(options.job);
  const planned = await planDeliveriesOfJob(context, options, values);
  const destinations = planned.map(({ destination: name, connector, stream, plan, reason, error }): PushPlanEntry => {
    const refused = error !== undefined && isRefusedDelivery(error) ? 'refused' : 'failed';
    const action = error !== undefined ? refused : (plan?.action ?? 'unknown');
    const why = error?.message ?? plan?.why ?? reason ?? '';
    return {
      name,
      connector,
      stream,
      action,
      why,
      plan: plan === undefined ? null : withoutSecrets(plan, values.hide),
      error: error === undefined ? null : reportError(error),
    };
  });
  const actions = new Set(destinations.map(({ action }) => action));
  const status = actions.has('failed') ? 'failed' : actions.has('refused') ? 'partial' : 'ok';
  const failed = planned.flatMap(({ error }) => (error === undefined || isRefusedDelivery(error) ? [] : [error]));
  const auth = failed.length > 0 && failed.every(({ kind }) => kind === 'auth');
  return { job: options.job.name, status, auth, destinations };
}
