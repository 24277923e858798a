import { z } from 'zod';
import type { ApiKey } from '../keys/api-key.js';
import type { ServiceState } from '../service-state.js';
import { defaultKey, defaultTenant, defaultTokenDays } from '../tenants.js';
import { type Control, checked } from './control.js';

const reference = { key: z.string().default(defaultKey), tenant: z.string().optional() };

const body = z.discriminatedUnion('action', [
  z.strictObject({
    action: z.literal('create'),
    name: z.string().min(1),
    tenant: z.string().default(defaultTenant),
    permissions: z.array(z.string()).optional(),
  }),
  z.strictObject({
    action: z.literal('issue'),
    ...reference,
    /** Days of validity; null issues a token that never expires. */
    days: z.int().min(1).max(36_500).nullable().default(defaultTokenDays),
    rotate: z.boolean().default(false),
  }),
  z.strictObject({ action: z.literal('drop'), ...reference }),
  z.strictObject({ action: z.literal('revoke'), ...reference, which: z.enum(['old', 'all']) }),
  z.strictObject({ action: z.literal('permit'), ...reference, permissions: z.array(z.string()) }),
]);

function shown({ stored }: ApiKey) {
  const { id, name, tenant, permissions, clientId, rotations, deposed } = stored;
  const deposedAt = deposed === null ? null : new Date(deposed.at).toISOString();
  return { id, name, tenant, permissions, client_id: clientId, rotations, deposed_at: deposedAt };
}

/** Adds the audit event that the user interface, where keys are managed, would add (specification, section 5). */
function record(state: ServiceState, key: ApiKey, what: string): void {
  const { id, name, tenant } = key.stored;
  const actor = { id: 'usr-ada', name: 'Ada Operator', originIp: '127.0.0.1', userAgent: 'control' };
  state.management.of(tenant).record(`:service.api-key/${what}`, { id, name }, actor, state.clock.now());
}

async function manage(given: unknown, state: ServiceState) {
  const request = checked(body, given);
  if (request.action === 'create') {
    const key = state.keys.create(request);
    record(state, key, 'created');
    return { ...shown(key), client_secret: key.stored.clientSecret };
  }
  const key = state.keys.find(request);
  if (request.action === 'issue') {
    record(state, key, request.rotate ? 'secret-rotated' : 'token-issued');
    const { token, expiresAt } = await state.tokens.issue(key, request);
    const expires = expiresAt === null ? null : new Date(expiresAt * 1000).toISOString();
    return { ...shown(key), token, expires_at: expires };
  }
  if (request.action !== 'permit')
    record(state, key, request.action === 'revoke' ? 'tokens-revoked' : 'tokens-dropped');
  if (request.action === 'permit') state.keys.permit(key, request.permissions);
  else if (request.action === 'revoke' && request.which === 'all') key.revokeAll();
  else key.dropDeposed();
  return shown(key);
}

/** Creates keys and steers the life of their tokens (specification, section 3). */
export const manageKeys: Control = {
  method: 'POST',
  path: 'keys',
  lasting: true,
  handle: (given, { state }) => manage(given, state),
};

export const showKeys: Control = {
  method: 'GET',
  path: 'keys',
  handle: (_, { state }) => ({ keys: state.keys.keys.map(shown) }),
};
