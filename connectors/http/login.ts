import { join } from 'node:path';
import {
  type CdsyncError,
  type HttpResponse,
  loginRefused,
  NoResponse,
  type OptionValues,
  readStateIfUsable,
  unavailable,
  z,
} from '../../src/sdk/index.js';
import type { Exchange } from './exchange.js';
import { writeKept } from './kept-state.js';
import type { HttpShape } from './options.js';

type Auth = NonNullable<OptionValues<HttpShape>['auth']>;
type OAuth = NonNullable<Auth['oauth2']>;

/** The headers that a login adds to each request. */
interface Credentials {
  readonly headers: Readonly<Record<string, string>>;
  readonly query: readonly (readonly [string, string])[];
}

interface Token {
  readonly text: string;
  /** In milliseconds of `Date.now`; undefined if the server does not say. */
  readonly renewAt: number | undefined;
}

const renewBeforeMs = 60_000;
/** A refresh token of the configuration, and the one that the server has replaced it by. */
const keptSchema = z.object({ configured: z.string(), replaced: z.string() });

/** The login of a destination. */
export class Login {
  readonly #auth: Auth | undefined;
  readonly #exchange: Exchange;
  readonly #folder: string;
  #token: Promise<Token> | undefined;
  #rejected: string | undefined;
  #worked: string | undefined;
  readonly #notice: (line: string) => void;

  /** @param folder keeps a refresh token that the server has replaced */
  constructor(auth: Auth | undefined, exchange: Exchange, folder: string, notice: (line: string) => void) {
    this.#auth = auth;
    this.#exchange = exchange;
    this.#folder = folder;
    this.#notice = notice;
  }

  /** @throws {CdsyncError} `destination_login`, `destination_unavailable` */
  async credentials(signal: AbortSignal): Promise<Credentials> {
    const { bearer, basic, header, query, oauth2 } = this.#auth ?? {};
    const of = (name: string, value: string): Credentials => ({ headers: { [name]: value }, query: [] });
    if (bearer !== undefined) return of('authorization', `Bearer ${bearer.reveal()}`);
    if (basic !== undefined) return of('authorization', basicHeader(basic.user, basic.password.reveal()));
    if (header !== undefined) return of(header.name.toLowerCase(), header.value.reveal());
    if (query !== undefined) return { headers: {}, query: [[query.name, query.value.reveal()]] };
    if (oauth2 === undefined) return { headers: {}, query: [] };
    return of('authorization', `Bearer ${(await this.#current(oauth2, signal)).text}`);
  }

  /** The receiver has taken these credentials. */
  worked({ headers }: Credentials): void {
    // A slow response may be about a token that is replaced by now.
    if (headers.authorization !== this.#rejected) this.#worked = headers.authorization;
  }

  /** After a 401: whether a new login may help. One counts for all requests that the old token failed. */
  renew({ headers: { authorization } }: Credentials): boolean {
    if (this.#auth?.oauth2 === undefined) return false;
    if (authorization === this.#rejected) return true;
    // A token that was never taken, after another one: a third will not be taken either.
    if (this.#rejected !== undefined && authorization !== this.#worked) return false;
    this.#rejected = authorization;
    this.#token = undefined;
    return true;
  }

  async #current(oauth2: OAuth, signal: AbortSignal): Promise<Token> {
    this.#token ??= this.#issued(oauth2, signal);
    const issuing = this.#token;
    const token = await issuing;
    if (token.renewAt === undefined || Date.now() < token.renewAt) return token;
    if (this.#token === issuing) this.#token = this.#issued(oauth2, signal);
    return this.#token ?? this.#current(oauth2, signal);
  }

  async #issued(oauth2: OAuth, signal: AbortSignal): Promise<Token> {
    try {
      return await this.#ask(oauth2, signal);
    } catch (error) {
      this.#token = undefined;
      throw error instanceof NoResponse ? unavailable(error.message) : error;
    }
  }

  get #kept(): string {
    return join(this.#folder, 'refresh-token');
  }

  async #ask(oauth2: OAuth, signal: AbortSignal): Promise<Token> {
    const { grant, scope, audience, resource, params, refreshToken, clientId, send } = oauth2;
    const secret = oauth2.clientSecret?.reveal() ?? '';
    const kept = grant === 'refresh_token' ? await readStateIfUsable(this.#kept, keptSchema) : undefined;
    const configured = refreshToken?.reveal() ?? '';
    // One that was replaced counts only for the token of the configuration that it replaced.
    const refresh = kept?.configured === configured ? kept.replaced : configured;
    const form = {
      grant_type: grant,
      ...(grant === 'refresh_token' ? { refresh_token: refresh } : {}),
      ...(scope === undefined ? {} : { scope }),
      ...(audience === undefined ? {} : { audience }),
      ...(resource === undefined ? {} : { resource }),
      ...params,
    };
    const inBody = send === 'body' || secret === '';
    let response = await this.#post(
      oauth2,
      inBody ? { ...form, client_id: clientId, ...(secret === '' ? {} : { client_secret: secret }) } : form,
      inBody ? undefined : basicHeader(encoded(clientId), encoded(secret)),
      signal,
    );
    // RFC 6749 wants both form-encoded; many servers take them as they are.
    if (
      !inBody &&
      (response.status === 400 || response.status === 401) &&
      encoded(clientId + secret) !== clientId + secret
    ) {
      const second = await this.#post(oauth2, form, basicHeader(clientId, secret), signal);
      // Else the first has the reason: of a form that it does not read, a server says no more than that.
      if (tokenIn(second) !== undefined || refusesGrant(second)) response = second;
    }
    const token = tokenIn(response);
    if (token === undefined) throw refusedLogin(oauth2, response);
    const { access_token: text, expires_in: seconds, refresh_token: next, scope: got } = token;
    if (typeof next === 'string' && next !== refresh && grant === 'refresh_token')
      await writeKept(this.#kept, { configured, replaced: next });
    const missing = scope?.split(' ').filter((word) => typeof got === 'string' && !got.split(' ').includes(word)) ?? [];
    if (missing.length > 0)
      this.#notice(`the login was given less than \`scope\` asks for: ${missing.join(' ')} is missing`);
    const life = Number(seconds) * 1000;
    return { text, renewAt: life > 0 ? Date.now() + life - Math.min(renewBeforeMs, life / 10) : undefined };
  }

  #post(
    oauth2: OAuth,
    form: Record<string, string>,
    authorization: string | undefined,
    signal: AbortSignal,
  ): Promise<HttpResponse> {
    const headers = {
      'content-type': 'application/x-www-form-urlencoded',
      accept: 'application/json',
      ...(authorization === undefined ? {} : { authorization }),
    };
    return this.#exchange.send(
      oauth2.tokenUrl,
      { method: 'POST', headers, body: new URLSearchParams(form).toString() },
      signal,
    );
  }
}

function encoded(text: string): string {
  return new URLSearchParams({ x: text }).toString().slice(2);
}

function basicHeader(user: string, password: string): string {
  return `Basic ${Buffer.from(`${user}:${password}`, 'utf8').toString('base64')}`;
}

interface TokenResponse {
  readonly access_token: string;
  readonly expires_in?: unknown;
  readonly refresh_token?: unknown;
  readonly scope?: unknown;
}

function tokenIn({ status, body }: HttpResponse): TokenResponse | undefined {
  if (status < 200 || status > 299) return undefined;
  try {
    const token = JSON.parse(body) as Partial<TokenResponse>;
    return typeof token?.access_token === 'string' && /^[\x21-\x7e]+$/.test(token.access_token)
      ? (token as TokenResponse)
      : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a server has let the client in, and refuses its grant. */
function refusesGrant({ body }: HttpResponse): boolean {
  return /"error"\s*:\s*"(?:invalid_(?:grant|scope|target)|unauthorized_client|unsupported_grant_type)"/.test(body);
}

function refusedLogin({ tokenUrl }: OAuth, { status, body }: HttpResponse): CdsyncError {
  const { host } = new URL(tokenUrl);
  if (status === 429 || status >= 500) return unavailable(`${host} answered the login with ${status}`);
  // Only a code of RFC 6749 is shown: anything else could repeat the login's secrets.
  const [, code] = /"error"\s*:\s*"([a-z_]{3,40})"/.exec(body) ?? [];
  return loginRefused(`${host} answered the login with ${status}${code === undefined ? '' : ` (${code})`}`, {
    hint: 'check `auth.oauth2`: token_url, client_id, client_secret, scope',
  });
}
