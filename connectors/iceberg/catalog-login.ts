import { loginRefused, type OptionValues, unavailable } from '../../src/sdk/index.js';
import { type CatalogHttp, serverMessage } from './catalog-http.js';
import type { IcebergShape } from './options.js';

/** A token is renewed this long before it ends. */
const earlyMs = 60_000;

/** The login of a caller of the catalog. */
export type CatalogLogin = Pick<OptionValues<IcebergShape>, 'token' | 'clientId' | 'clientSecret' | 'scope'>;

/** The token for requests: the configured one, or one that the catalog gives for client credentials. */
export class CatalogTokens {
  readonly #login: CatalogLogin;
  readonly #http: CatalogHttp;
  readonly #path: string;
  #token: { readonly text: string; readonly until: number } | undefined;

  /** @param path where to ask for tokens, below the URL of `http` */
  constructor(login: CatalogLogin, http: CatalogHttp, path: string) {
    this.#login = login;
    this.#http = http;
    this.#path = path;
  }

  get canRenew(): boolean {
    return this.#login.clientId !== undefined;
  }

  /** @throws {CdsyncError} `destination_login`, `destination_unavailable` */
  async headers(): Promise<Record<string, string>> {
    const { token } = this.#login;
    if (token !== undefined) return { authorization: `Bearer ${token.reveal()}` };
    if (!this.canRenew) return {};
    if (this.#token === undefined || performance.now() > this.#token.until) this.#token = await this.#ask();
    return { authorization: `Bearer ${this.#token.text}` };
  }

  /** The server has refused the token: the next request gets another. */
  forget(): void {
    this.#token = undefined;
  }

  async #ask(): Promise<{ text: string; until: number }> {
    const { clientId = '', clientSecret, scope } = this.#login;
    const form = new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: clientId,
      client_secret: clientSecret?.reveal() ?? '',
      scope,
    });
    const { status, body } = await this.#http.send({
      method: 'POST',
      path: this.#path,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: form.toString(),
    });
    if (status >= 500) throw unavailable(`${this.#http.host} responded to a request for a token with ${status}`);
    const token = status < 300 ? tokenOf(body) : undefined;
    if (token === undefined)
      throw loginRefused(`${this.#http.host} gives no token for the client (${status}) ${serverMessage(body)}`.trim(), {
        hint: 'check `client_id`, `client_secret`, `scope` and `oauth_url`',
      });
    return token;
  }
}

function tokenOf(body: string): { text: string; until: number } | undefined {
  try {
    const { access_token: text, expires_in: seconds } = JSON.parse(body) as {
      access_token?: unknown;
      expires_in?: unknown;
    };
    if (typeof text !== 'string' || text === '') return undefined;
    const lastsMs = typeof seconds === 'number' ? seconds * 1000 : 3_600_000;
    return { text, until: performance.now() + Math.max(lastsMs - earlyMs, lastsMs / 2) };
  } catch {
    return undefined;
  }
}
