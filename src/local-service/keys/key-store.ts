import { createHash } from 'node:crypto';
import { badRequest, notFound, ServiceError } from '../http/response.js';
import { ApiKey, type Permission, permissions, type StoredKey } from './api-key.js';

/** A service that has no keys yet starts with this tenant and a key of this name. */
export const defaultTenant = 'acme';
export const defaultKey = 'default';
/** Default validity of a token, in days. */
export const defaultTokenDays = 90;
/** The tenant that a sandbox belongs to, `acme` for `acme-sb-7` and `acme-sb`; any other tenant is its own. */
export function tenantFamily(tenant: string): string {
  return tenant.replace(/-sb(-\d+)?$/, '');
}

interface NewKey {
  readonly name: string;
  readonly tenant: string;
  /** Default: every permission. */
  readonly permissions?: readonly string[] | undefined;
}

function checkedPermissions(names: readonly string[]): Permission[] {
  return names.map((name) => {
    const permission = permissions.find((one) => one === name);
    if (permission !== undefined) return permission;
    throw badRequest(`there is no permission ${JSON.stringify(name)}; the permissions are ${permissions.join(', ')}`);
  });
}

/**
 * The API keys of all tenants. Each key belongs to one tenant; sandboxes have their own (specification, section 5). Every
 * secret derives from the seed, so that a service has the same credentials after a restart.
 */
export class KeyStore {
  readonly #seed: number;
  readonly #keys = new Map<string, ApiKey>();
  readonly #tenants = new Set<string>();

  constructor(seed: number, stored: readonly StoredKey[] = []) {
    this.#seed = seed;
    for (const key of stored) this.#add(key);
  }

  get keys(): readonly ApiKey[] {
    return [...this.#keys.values()];
  }

  /** Whether a tenant exists: it does once it has a key. */
  hasTenant(tenant: string): boolean {
    return this.#tenants.has(tenant);
  }

  /** Every tenant that has a key. */
  get tenants(): readonly string[] {
    return [...this.#tenants];
  }

  byId(id: string): ApiKey | undefined {
    return this.#keys.get(id);
  }

  byClientId(clientId: string): ApiKey | undefined {
    return this.keys.find(({ stored }) => stored.clientId === clientId);
  }

  /** A key by its name or id. @throws {ServiceError} 404, or 409 if several tenants have such a key */
  find({ key, tenant }: { key: string; tenant?: string | undefined }): ApiKey {
    const matching = this.keys.filter(
      ({ stored }) => (stored.id === key || stored.name === key) && (tenant === undefined || stored.tenant === tenant),
    );
    if (matching.length > 1) throw new ServiceError(409, `several tenants have a key ${key}: name the tenant too`);
    if (matching[0] === undefined) throw notFound(`there is no key ${key}`);
    return matching[0];
  }

  /** @throws {ServiceError} 400 for an unknown permission or a malformed tenant id, 409 if the tenant has such a key */
  create({ name, tenant, permissions: names = permissions }: NewKey): ApiKey {
    if (!/^[a-z0-9][a-z0-9-]{0,62}$/.test(tenant)) {
      throw badRequest('a tenant id has at most 63 small letters, digits and dashes, and does not start with a dash');
    }
    if (this.keys.some(({ stored }) => stored.name === name && stored.tenant === tenant)) {
      throw new ServiceError(409, `${tenant} already has a key ${name}`);
    }
    const id = this.#derive('key', tenant, name).slice(0, 12);
    return this.#add({
      id,
      name,
      tenant,
      permissions: checkedPermissions(names),
      clientId: `cid-${this.#derive('client id', id).slice(0, 16)}`,
      clientSecret: this.#derive('client secret', id),
      secret: this.#internalSecret(id, 0),
      deposed: null,
      rotations: 0,
      generation: 0,
    });
  }

  /** @throws {ServiceError} 400 for an unknown permission */
  permit(key: ApiKey, names: readonly string[]): void {
    key.stored.permissions = checkedPermissions(names);
  }

  #add(stored: StoredKey): ApiKey {
    const key = new ApiKey(stored, (rotation) => this.#internalSecret(stored.id, rotation));
    this.#keys.set(stored.id, key);
    this.#tenants.add(stored.tenant);
    return key;
  }

  #internalSecret(id: string, rotation: number): string {
    return this.#derive('internal secret', id, String(rotation));
  }

  #derive(...what: readonly string[]): string {
    return createHash('sha256')
      .update(JSON.stringify([this.#seed, ...what]))
      .digest('hex')
      .slice(0, 40);
  }
}
