import { z } from 'zod';

const startedRun = z.object({
  id: z.string(),
  configId: z.string(),
  runMode: z.string(),
  rangeFrom: z.string().optional(),
  rangeTo: z.string().optional(),
  principalId: z.string(),
  principalName: z.string(),
  /** Milliseconds since the Unix epoch, like all times in this file. */
  at: z.number(),
  stopAt: z.number().nullable(),
  /** It was canceled at once, instead of stopped. */
  canceled: z.boolean().optional(),
});

/** A run that a client has started. */
export type StartedRun = z.infer<typeof startedRun>;

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

/** An audit event as the API answers it. */
export type AuditEvent = z.infer<typeof auditEvent>;

const savedTenant = z.object({
  /** For each day of changes, when it passed. */
  days: z.array(z.number()),
  runs: z.array(startedRun),
  events: z.array(auditEvent),
});

export type SavedTenant = z.infer<typeof savedTenant>;

/** The state of the Management API that a restart must keep. */
export const savedManagement = z.object({
  /** When the service was first started; the invented past ends there. */
  origin: z.number(),
  tenants: z.record(z.string(), savedTenant),
});

export type SavedManagement = z.infer<typeof savedManagement>;
