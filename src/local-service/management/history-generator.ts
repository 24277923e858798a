import { Draws, hashText } from '../data/hash.js';
import { tenantFamily } from '../tenant-family.js';
import type { AuditEvent } from './saved-management.js';
import { type WorkflowConfig, workflowConfigs } from './workflow-config.js';
import type { RunFacts } from './workflow-run.js';

export const dayMs = 86_400_000;
/** Days of history that a tenant has before the first start of the service. */
export const pastDays = 60;
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

/** The fields of an audit event that say who did it. */
export function principal(
  id: string,
  name: string,
): Pick<AuditEvent, 'principal_id' | 'principal_name' | 'principal_email'> {
  return { principal_id: id, principal_name: name, principal_email: `${id}@operators.example.com` };
}

/** The audit events of one day, `stepMs` apart, the first at `from`. @param day a name that no other day has */
export function eventsOfDay(tenant: string, seed: number, day: string, from: number, stepMs: number): AuditEvent[] {
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
export function nightlyRun(tenant: string, seed: number, day: string, at: number, endsAt: number): RunFacts {
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
