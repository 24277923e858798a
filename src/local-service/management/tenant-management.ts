import { z } from '../../core/zod.js';
import { Draws, hashText } from '../data/hash.js';
import { badRequest, notFound, ServiceError } from '../http/response.js';
import { tenantFamily } from '../keys/key-store.js';
import { type ListedThing, type NamedList, namedList } from './named-lists.js';
import {
  ingestJob,
  shownRun,
  startedRun,
  startingMs,
  stateOf,
  type WorkflowConfig,
  type WorkflowRun,
  workflowConfigs,
} from './workflow-run.js';

const dayMs = 86_400_000;
/** Days of history that a tenant has before the first start of the service. */
const pastDays = 60;
/** Audit events of one day. */
const dailyEvents = 40;

const operators = [
  ['usr-ada', 'Ada Operator'],
  ['usr-bea', 'Bea Analyst'],
  ['usr-cem', 'Cem Engineer'],
] as const;

const eventTypes = [
  ':service.alert.audience/created',
  ':service.segment/updated',
  ':service.campaign/launched',
  ':service.user/signed-in',
  ':service.export/finished',
];

const auditEvent = z.object({
  event_id: z.string(),
  event_type: z.string(),
  happened_at: z.string(),
  principal_id: z.string(),
  principal_name: z.string(),
  principal_email: z.string().optional(),
  object_id: z.string(),
  object_name: z.string().optional(),
  origin_ip: z.string(),
  user_agent: z.string(),
  session_id: z.string(),
  tenant: z.string(),
  tenant_family: z.string(),
});

/** An audit event as the API returns it. */
export type AuditEvent = z.infer<typeof auditEvent>;

export const savedTenant = z.object({
  /** For each day of changes, when it passed. */
  days: z.array(z.number()),
  runs: z.array(startedRun),
  events: z.array(auditEvent),
});

type SavedTenant = z.infer<typeof savedTenant>;

/** The fields of an audit event that say who did it. */
function principal(id: string, name: string): Pick<AuditEvent, 'principal_id' | 'principal_name' | 'principal_email'> {
  return { principal_id: id, principal_name: name, principal_email: `${id}@operators.example.com` };
}

/** The audit events of one day, `stepMs` apart, the first at `from`. @param day a name that no other day has */
function eventsOfDay(tenant: string, seed: number, day: string, from: number, stepMs: number): AuditEvent[] {
  const draws = new Draws(hashText(`audit ${tenant} ${seed} ${day}`));
  return Array.from({ length: dailyEvents }, (_, index) => {
    const [id, name] = draws.pick(operators);
    const type = draws.pick(eventTypes);
    const number = draws.below(900) + 100;
    return {
      event_id: `evt-${hashText(`${tenant} ${seed} ${day} ${index}`).toString(16).padStart(8, '0')}-${index}`,
      event_type: type,
      happened_at: new Date(Math.floor(from + index * stepMs)).toISOString(),
      ...principal(id, name),
      object_id: `obj-${number}`,
      ...(draws.chance(0.8) ? { object_name: `Object ${number}` } : {}),
      origin_ip: `192.0.2.${draws.below(254) + 1}`,
      user_agent: 'Mozilla/5.0',
      session_id: `ses-${draws.below(1_000_000)}`,
      tenant,
      tenant_family: tenantFamily(tenant),
    };
  });
}

/** A run that the schedule of the service has started. */
function nightlyRun(tenant: string, seed: number, day: string, at: number, endsAt: number): WorkflowRun {
  return {
    id: `run-${hashText(`run ${tenant} ${seed} ${day}`).toString(16).padStart(8, '0')}`,
    configId: 'cg-1',
    config: workflowConfigs[0] as WorkflowConfig,
    runMode: 'full',
    principalId: 'svc-schedule',
    principalName: 'Schedule',
    tenant,
    at,
    stopAt: null,
    startingMs: 0,
    endsAt,
  };
}

/** The actor of an audit event. */
export interface Actor {
  readonly id: string;
  readonly name: string;
  readonly originIp: string;
  readonly userAgent: string;
  /** An API key, which has no e-mail address. */
  readonly isKey?: true;
}

const principalOf = ({ id, name }: Actor) => ({ principal_id: id, principal_name: name });

/** How many milliseconds of the clock one day of changes takes, so that its events have different times. */
const changeStepMs = 50;

/** Options of a start. `rangeFrom` alone means that one day. */
interface StartOptions {
  readonly runMode?: string;
  readonly rangeFrom?: string;
  readonly rangeTo?: string;
}

/** @throws {ServiceError} 400 */
function checkOptions({ id, kind, pullsFiles }: WorkflowConfig, { runMode, rangeFrom }: StartOptions): void {
  if (kind !== 'courier group' && (runMode ?? rangeFrom) !== undefined) {
    throw badRequest(`${id} is no courier group: it takes no run_mode, range_from or range_to`);
  }
  if (pullsFiles && rangeFrom === undefined) throw badRequest(`${id} pulls files: range_from is required`);
}

/** How a deployment stops a run. */
interface StopRules {
  /** The run is canceled at once, and not stopping first. */
  readonly cancels: boolean;
  /** A run that was stopped may be stopped again. */
  readonly again: boolean;
}

/** The Management API of one tenant: a past derived from the seed, and everything done since. */
export class TenantManagement {
  readonly #tenant: string;
  readonly #seed: number;
  readonly #origin: number;
  readonly saved: SavedTenant;
  #pastEvents: AuditEvent[] | undefined;

  constructor(tenant: string, seed: number, origin: number, saved: SavedTenant) {
    this.#tenant = tenant;
    this.#seed = seed;
    this.#origin = origin;
    this.saved = saved;
  }

  named(list: NamedList): ListedThing[] {
    return namedList(list, this.#tenant, this.#seed, this.saved.days.length);
  }

  /** The audit events of this tenant alone, unsorted. */
  events(): AuditEvent[] {
    const [tenant, seed, origin] = [this.#tenant, this.#seed, this.#origin];
    this.#pastEvents ??= Array.from({ length: pastDays }, (_, day) =>
      eventsOfDay(tenant, seed, `past ${day}`, origin - (day + 1) * dayMs, dayMs / 50),
    ).flat();
    const days = this.saved.days.flatMap((at, day) => eventsOfDay(tenant, seed, `day ${day}`, at, 1));
    return [...this.#pastEvents, ...days, ...this.saved.events];
  }

  /** Every run: the past first, then the days of changes, then the runs that clients started. */
  runs(): WorkflowRun[] {
    const [tenant, seed, origin] = [this.#tenant, this.#seed, this.#origin];
    const { days, runs } = this.saved;
    const past = Array.from({ length: pastDays }, (_, day) => {
      const at = origin - (pastDays - day) * dayMs - 7_200_000;
      return nightlyRun(tenant, seed, `past ${day}`, at, at + 3_600_000);
    });
    const unfinished = nightlyRun(tenant, seed, 'first', origin - 3_600_000, days[0] ?? Number.POSITIVE_INFINITY);
    const since = days.flatMap((at, day) => [
      nightlyRun(tenant, seed, `day ${day}`, at, at + 30),
      nightlyRun(tenant, seed, `open ${day}`, at + 1, days[day + 1] ?? Number.POSITIVE_INFINITY),
    ]);
    const started = runs.map((run): WorkflowRun => {
      const config = workflowConfigs.find(({ id }) => id === run.configId) as WorkflowConfig;
      return { ...run, tenant, config, startingMs, endsAt: run.at + config.durationMs };
    });
    return [...past, unfinished, ...since, ...started];
  }

  /** @throws {ServiceError} 404 */
  run(id: string): WorkflowRun {
    const storedRun = this.runs().find((run) => run.id === id);
    if (storedRun === undefined) throw notFound('there is no workflow run of this id');
    return storedRun;
  }

  /** The ingest jobs that exist at a time. */
  jobs(nowMs: number): { createdAt: number; shown: Record<string, unknown> }[] {
    return this.runs().flatMap((run) => ingestJob(run, nowMs) ?? []);
  }

  /** @throws {ServiceError} 400 if there is no such workflow, or it does not take the options */
  start(options: StartOptions & { readonly configId: string }, actor: Actor, nowMs: number) {
    const request = { ...options, runMode: options.runMode ?? 'full' };
    const config = workflowConfigs.find(({ id }) => id === request.configId);
    if (config === undefined) throw badRequest(`there is no workflow configuration ${request.configId}`);
    checkOptions(config, options);
    const number = this.saved.runs.length + 1;
    const id = `run-${hashText(`${this.#tenant} ${this.#seed} started ${number}`).toString(16).padStart(8, '0')}`;
    this.saved.runs.push({ ...request, id, at: nowMs, stopAt: null, principalId: actor.id, principalName: actor.name });
    this.record(':service.workflow.run/started', { id, name: config.name }, actor, nowMs);
    return shownRun(this.run(id), nowMs);
  }

  /** @throws {ServiceError} 404, or 409 if it has ended or was started by the schedule */
  stop(id: string, { cancels, again }: StopRules, actor: Actor, nowMs: number): Record<string, unknown> {
    const run = this.run(id);
    const state = stateOf(run, nowMs);
    if (again && (state === 'stopped' || state === 'canceled')) return shownRun(run, nowMs);
    if (state !== 'scheduled' && state !== 'started' && state !== 'in progress' && state !== 'stopping') {
      throw new ServiceError(
        409,
        `the workflow run has already ${state === 'stopped' || state === 'canceled' ? `been ${state}` : state}`,
      );
    }
    const saved = this.saved.runs.find((run) => run.id === id);
    if (saved === undefined) throw new ServiceError(409, 'scheduled workflow runs cannot be stopped');
    if (saved.stopAt === null) {
      saved.stopAt = nowMs;
      saved.canceled = cancels;
      this.record(':service.workflow.run/stopped', { id, name: run.config.name }, actor, nowMs);
    }
    return shownRun(this.run(id), nowMs);
  }

  /** Adds an audit event for something that a client or a test has done. */
  record(type: string, object: { id: string; name?: string }, actor: Actor, nowMs: number): void {
    const number = this.saved.events.length + 1;
    this.saved.events.push({
      event_id: `evt-${hashText(`${this.#tenant} done ${number} ${nowMs}`).toString(16).padStart(8, '0')}-r${number}`,
      event_type: type,
      happened_at: new Date(nowMs).toISOString(),
      ...(actor.isKey ? principalOf(actor) : principal(actor.id, actor.name)),
      object_id: object.id,
      ...(object.name === undefined ? {} : { object_name: object.name }),
      origin_ip: actor.originIp,
      user_agent: actor.userAgent,
      session_id: `ses-${number}`,
      tenant: this.#tenant,
      tenant_family: tenantFamily(this.#tenant),
    });
  }

  /** Lets days pass. Each takes its own {@link changeStepMs}, as close to the present as possible. */
  pass(days: number, nowMs: number): void {
    for (let day = 0; day < days; day += 1) {
      const last = this.saved.days.at(-1) ?? 0;
      this.saved.days.push(Math.max(last + changeStepMs, nowMs - (days - day) * changeStepMs));
    }
  }
}
