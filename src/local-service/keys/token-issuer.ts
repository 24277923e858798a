import { createHash } from 'node:crypto';
import { CompactSign } from 'jose/jws/compact/sign';
import { compactVerify } from 'jose/jws/compact/verify';
import { z } from '../../core/zod.js';
import { unauthorized } from '../http/response.js';
import type { ServiceClock } from '../service-clock.js';
import type { ApiKey } from './api-key.js';
import type { KeyStore } from './key-store.js';

const claims = z.object({
  /** The key's id. */
  sub: z.string(),
  tenant: z.string(),
  /** Digest of the key's internal secret (specification, section 5). */
  secret: z.string(),
  generation: z.int(),
  /** Seconds since the Unix epoch. */
  iat: z.number(),
  /** Seconds since the Unix epoch; left out in a token that does not expire. */
  exp: z.number().optional(),
  jti: z.string(),
});

/** The claims of an access token. */
type Claims = z.infer<typeof claims>;

/** Makes the text of an access token: a JSON Web Token, signed with HMAC SHA-256. */
async function signToken(content: Claims, signingKey: Uint8Array): Promise<string> {
  return await new CompactSign(Buffer.from(JSON.stringify(content)))
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT', kid: content.sub })
    .sign(signingKey);
}

/** Base64url has several spellings for some bytes; a token has the one of RFC 7515, section 2. */
const isCanonical = (part: string) => Buffer.from(part, 'base64url').toString('base64url') === part;

/** The claims of a correctly signed token, even one that has expired or was revoked; undefined for any other text. */
async function readToken(token: string, signingKey: Uint8Array): Promise<Claims | undefined> {
  if (!token.split('.').every(isCanonical)) return undefined;
  try {
    const { payload } = await compactVerify(token, signingKey, { algorithms: ['HS256'] });
    return claims.safeParse(JSON.parse(Buffer.from(payload).toString('utf8'))).data;
  } catch {
    return undefined;
  }
}

const oauthSeconds = 3600;
const daySeconds = 86_400;
const maxKnown = 1000;

/** A correctly signed token; each request checks again whether it is still valid. */
interface KnownToken {
  readonly key: ApiKey;
  readonly claims: Claims;
}

/** Issues access tokens and checks them (specification, sections 3 and 5). */
export class TokenIssuer {
  readonly #keys: KeyStore;
  readonly #clock: ServiceClock;
  readonly #signingKey: Uint8Array;
  /** By the text of the Authorization header, so that each signature is checked only once. */
  readonly #tokens = new Map<string, KnownToken>();
  #issued = 0;

  constructor(keys: KeyStore, clock: ServiceClock, seed: number) {
    this.#keys = keys;
    this.#clock = clock;
    this.#signingKey = createHash('sha256').update(`signing key ${seed}`).digest();
  }

  /** @param rotate whether earlier tokens of the key end @param days of validity; null for a token that does not expire */
  async issue(
    key: ApiKey,
    { days, rotate }: { days: number | null; rotate: boolean },
  ): Promise<{ token: string; expiresAt: number | null }> {
    if (rotate) key.rotate(this.#clock.now());
    const claims = this.#claims(key, days === null ? null : days * daySeconds);
    return { token: await signToken(claims, this.#signingKey), expiresAt: claims.exp ?? null };
  }

  /**
   * Issues a token for OAuth credentials (specification, section 4.9).
   * @throws {ServiceError} 401
   */
  async exchange(
    clientId: string,
    clientSecret: string,
    tenant: string,
  ): Promise<{ token: string; expiresIn: number }> {
    const key = this.#keys.byClientId(clientId);
    if (key === undefined || key.stored.clientSecret !== clientSecret || key.stored.tenant !== tenant) {
      throw unauthorized('the client credentials are not valid for this tenant');
    }
    return { token: await signToken(this.#claims(key, oauthSeconds), this.#signingKey), expiresIn: oauthSeconds };
  }

  /**
   * The API key of a request. It returns a promise only for a token that it has not seen before.
   * @throws {ServiceError} 401
   */
  authenticate(authorization: string, tenant: string): ApiKey | Promise<ApiKey> {
    const knownToken = this.#tokens.get(authorization);
    if (knownToken !== undefined) return this.#valid(knownToken, tenant);
    return this.#read(authorization).then((token) => this.#valid(token, tenant));
  }

  async #read(authorization: string): Promise<KnownToken> {
    const token = /^Bearer +(\S+)$/i.exec(authorization)?.[1];
    if (token === undefined) throw unauthorized('the Authorization header is not of the form: Bearer <token>');
    const claims = await readToken(token, this.#signingKey);
    const key = claims === undefined ? undefined : this.#keys.byId(claims.sub);
    if (claims === undefined || key === undefined) throw unauthorized('the access token is not valid');
    if (this.#tokens.size === maxKnown) this.#tokens.clear();
    const knownToken = { key, claims };
    this.#tokens.set(authorization, knownToken);
    return knownToken;
  }

  #valid({ key, claims }: KnownToken, tenant: string): ApiKey {
    const nowMs = this.#clock.now();
    if (claims.exp !== undefined && nowMs >= claims.exp * 1000) throw unauthorized('the access token has expired');
    if (!key.accepts(claims.secret, claims.generation, nowMs))
      throw unauthorized('the access token is no longer valid');
    if (claims.tenant !== tenant) throw unauthorized('the access token is not valid for this tenant');
    return key;
  }

  #claims(key: ApiKey, seconds: number | null): Claims {
    const iat = Math.floor(this.#clock.now() / 1000);
    this.#issued += 1;
    return {
      sub: key.stored.id,
      tenant: key.stored.tenant,
      secret: key.activeDigest,
      generation: key.stored.generation,
      iat,
      ...(seconds === null ? {} : { exp: iat + seconds }),
      jti: `${iat.toString(36)}-${this.#issued.toString(36)}`,
    };
  }
}
