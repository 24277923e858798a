import { z } from '../../core/zod.js';
import type { ApiKey } from '../keys/api-key.js';
import { defaultKey, defaultTenant, defaultTokenDays } from '../keys/key-store.js';
import type { ServiceState } from '../service-state.js';
import { emptyBody, lasting, passing } from './control.js';

const reference = { key: z.string().default(defaultKey), tenant: z.string().optional() };

const action = z.discriminatedUnion('action', [
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

function shownKey({ stored }: ApiKey) {
  const { id, name, tenant, permissions, clientId, rotations, deposed } = stored;
  const deposedAt = deposed === null ? null : new Date(deposed.at).toISOString();
  return { id, name, tenant, permissions, client_id: clientId, rotations, deposed_at: deposedAt };
}

/** Adds the audit event that the user interface, where keys are managed, would add (specification, section 5). */
function recordKeyEvent(state: ServiceState, key: ApiKey, what: string): void {
  const { id, name, tenant } = key.stored;
  const actor = { id: 'usr-ada', name: 'Ada Operator', originIp: '127.0.0.1', userAgent: 'control' };
  state.management.of(tenant).record(`:service.api-key/${what}`, { id, name }, actor, state.clock.now());
}

async function manage(request: z.output<typeof action>, state: ServiceState) {
  if (request.action === 'create') {
    const key = state.keys.create(request);
    recordKeyEvent(state, key, 'created');
    return { ...shownKey(key), client_secret: key.stored.clientSecret };
  }
  const key = state.keys.find(request);
  if (request.action === 'issue') {
    recordKeyEvent(state, key, request.rotate ? 'secret-rotated' : 'token-issued');
    const { token, expiresAt } = await state.tokens.issue(key, request);
    const expires = expiresAt === null ? null : new Date(expiresAt * 1000).toISOString();
    return { ...shownKey(key), token, expires_at: expires };
  }
  if (request.action === 'permit') {
    state.keys.permit(key, request.permissions);
    return shownKey(key);
  }
  recordKeyEvent(state, key, request.action === 'revoke' ? 'tokens-revoked' : 'tokens-dropped');
  if (request.action === 'revoke' && request.which === 'all') key.revokeAll();
  else key.dropDeposed();
  return shownKey(key);
}

/** Creates keys, issues and ends their tokens (specification, section 3). */
export const keyControls = [
  lasting('POST keys', action, manage),
  passing('GET keys', emptyBody, (_, { keys }) => ({ keys: keys.keys.map(shownKey) })),
];
