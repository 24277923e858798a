import { jsonAnswer } from '../http/answer.js';
import { requestBody } from '../http/request-body.js';
import { badRequest, unauthorized } from '../http/service-error.js';
import type { ServiceState } from '../service-state.js';
import type { Call, Operation } from './operation.js';

const maxBodyBytes = 64 * 1024;

async function exchange({ request }: Call, state: ServiceState) {
  const type = request.headers['content-type']?.split(';')[0]?.trim().toLowerCase();
  if (type !== 'application/x-www-form-urlencoded') {
    throw badRequest('the body must be application/x-www-form-urlencoded');
  }
  const form = new URLSearchParams(await requestBody(request, maxBodyBytes));
  if (form.get('grant_type') !== 'client_credentials') throw badRequest('grant_type must be client_credentials');
  const [id, secret] = [form.get('client_id'), form.get('client_secret')];
  if (!id || !secret) throw badRequest('client_id and client_secret are required');
  const tenant = request.headers[state.oauthTenantHeader];
  if (typeof tenant !== 'string' || tenant === '') throw badRequest('the tenant header is missing');
  if (!state.keys.hasTenant(tenant)) throw unauthorized('the client credentials are not valid for this tenant');
  const { token, expiresIn } = await state.tokens.exchange(id, secret, tenant);
  return jsonAnswer({ access_token: token, expires_in: expiresIn, token_type: 'Bearer' });
}

/** POST /api/v0/oauth2/token (specification, section 4.9). */
export const oauthToken: Operation = { method: 'POST', path: '/api/v0/oauth2/token', handle: exchange };
