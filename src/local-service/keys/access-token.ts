import { CompactSign } from 'jose/jws/compact/sign';
import { compactVerify } from 'jose/jws/compact/verify';
import { z } from 'zod';

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
export type Claims = z.infer<typeof claims>;

/** Makes the text of an access token: a JSON Web Token, signed with HMAC SHA-256. */
export async function signToken(content: Claims, signingKey: Uint8Array): Promise<string> {
  return await new CompactSign(Buffer.from(JSON.stringify(content)))
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT', kid: content.sub })
    .sign(signingKey);
}

/** The claims of a correctly signed token, even one that has expired or was revoked; undefined for any other text. */
export async function readToken(token: string, signingKey: Uint8Array): Promise<Claims | undefined> {
  try {
    const { payload } = await compactVerify(token, signingKey, { algorithms: ['HS256'] });
    return claims.safeParse(JSON.parse(Buffer.from(payload).toString('utf8'))).data;
  } catch {
    return undefined;
  }
}
