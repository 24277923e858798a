import { createHash } from 'node:crypto';
import { z } from '../../core/zod.js';

/**
 * The permissions that a policy can give an API key. The specification (section 5) names `pii:read`,
 * `profile-collections:read` and `real-time-segments:read`; the two for events are published, either is enough; the other
 * names are our own.
 */
export const permissions = [
  'indexes:read',
  'index-profiles:read',
  'audit-events:read',
  'campaigns:read',
  'campaign-drafts:read',
  'ingest-jobs:read',
  'segments:read',
  'workflow-runs:read',
  'workflow-runs:write',
  'profile-collections:read',
  'profile-events:write',
  'streaming-ingest-api:write',
  'real-time-segments:read',
  'pii:read',
] as const;

export type Permission = (typeof permissions)[number];

/** How long a rotation leaves the tokens that it deposes valid (specification, section 8). */
const deposedMs = 30 * 86_400_000;

/** A key as the state file keeps it. Times are milliseconds since the Unix epoch. */
export const storedKey = z.object({
  id: z.string(),
  name: z.string(),
  tenant: z.string(),
  permissions: z.array(z.enum(permissions)),
  clientId: z.string(),
  clientSecret: z.string(),
  /** The internal secret; new tokens carry its digest. */
  secret: z.string(),
  /** The secret before the last rotation, and when it was deposed; null if there is no such secret. */
  deposed: z.object({ secret: z.string(), at: z.number() }).nullable(),
  rotations: z.int(),
  /** How often all tokens were revoked. */
  generation: z.int(),
});

export type StoredKey = z.infer<typeof storedKey>;

/** The digest of a key's internal secret, for the claims of its tokens. */
function secretDigest(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url').slice(0, 22);
}

/**
 * An API key and the life of its tokens (specification, section 3). A token carries the digest of the internal secret
 * that it was issued with, and the key's generation:
 *
 * - active: the secret is the key's own
 * - deposed: the secret is the one before the last rotation; valid for 30 days after it, or until it is dropped by
 *   another rotation, dropped explicitly, or revoked
 * - no longer valid: any other secret, or an earlier generation (all tokens were revoked)
 */
export class ApiKey {
  readonly stored: StoredKey;
  readonly #newSecret: (rotation: number) => string;
  #active: string;
  #deposed: string | undefined;

  /** @param newSecret gives the internal secret after a number of rotations */
  constructor(stored: StoredKey, newSecret: (rotation: number) => string) {
    this.stored = stored;
    this.#newSecret = newSecret;
    this.#active = secretDigest(stored.secret);
    this.#deposed = stored.deposed === null ? undefined : secretDigest(stored.deposed.secret);
  }

  /** Digest of the active secret. */
  get activeDigest(): string {
    return this.#active;
  }

  allows(permission: Permission): boolean {
    return this.stored.permissions.includes(permission);
  }

  /** Whether a token with these claims is active or deposed at this time. */
  accepts(digest: string, generation: number, nowMs: number): boolean {
    if (generation !== this.stored.generation) return false;
    if (digest === this.#active) return true;
    return digest === this.#deposed && this.stored.deposed !== null && nowMs < this.stored.deposed.at + deposedMs;
  }

  /** Deposes the active tokens, and drops those that were deposed before. */
  rotate(nowMs: number): void {
    const { stored } = this;
    stored.deposed = { secret: stored.secret, at: nowMs };
    stored.rotations += 1;
    stored.secret = this.#newSecret(stored.rotations);
    this.#deposed = this.#active;
    this.#active = secretDigest(stored.secret);
  }

  /** Ends the deposed tokens: an explicit drop, and "revoke old tokens", do this. */
  dropDeposed(): boolean {
    const had = this.stored.deposed !== null;
    this.stored.deposed = null;
    this.#deposed = undefined;
    return had;
  }

  /** Ends every token issued so far. */
  revokeAll(): void {
    this.dropDeposed();
    this.stored.generation += 1;
  }
}
