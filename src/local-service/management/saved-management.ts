import { z } from 'zod';

const startedRun = z.object({
  id: z.string(),
  configId: z.string(),
  runMode: z.string(),
  rangeFrom: z.string().optional(),
  rangeTo: z.string().optional(),
  principalId: z.string(),
  principalName: z.string(),
  /** Milliseconds since the Unix epoch, as all times here. */
  at: z.number(),
  stopAt: z.number().nullable(),
});

/** A run that somebody has started. */
export type StartedRun = z.infer<typeof startedRun>;

const auditEvent = z.object({
  event_id: z.string(),
  event_type: z.string(),
  happened_at: z.string(),
  principal_id: z.string(),
  principal_name: z.string(),
  principal_email: z.string(),
  object_id: z.string(),
  object_name: z.string().optional(),
  origin_ip: z.string(),
  user_agent: z.string(),
  session_id: z.string(),
  tenant: z.string(),
  tenant_family: z.string(),
});

/** An audit event as the API gives it. */
export type AuditEvent = z.infer<typeof auditEvent>;

const savedTenant = z.object({
  /** When the days have passed that changed the data. */
  days: z.array(z.number()),
  runs: z.array(startedRun),
  events: z.array(auditEvent),
});

export type SavedTenant = z.infer<typeof savedTenant>;

/** What of the Management API a restart must not lose. */
export const savedManagement = z.object({
  /** When the service was started first: the past ends there. */
  origin: z.number(),
  tenants: z.record(z.string(), savedTenant),
});

export type SavedManagement = z.infer<typeof savedManagement>;
