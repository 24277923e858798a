import type { ServiceOptions } from '../core/service-options.js';
import type { Operation } from './request.js';

/** The header lists of requests; each is made once for a token, a version, and with or without a body. */
export class RequestHeaders {
  readonly #service: Pick<ServiceOptions, 'tenantId' | 'tenantHeader' | 'apiVersions'>;
  readonly #userAgent: string;
  readonly #lists = new Map<string, readonly string[]>();
  #token = '';

  constructor(service: Pick<ServiceOptions, 'tenantId' | 'tenantHeader' | 'apiVersions'>, userAgent: string) {
    this.#service = service;
    this.#userAgent = userAgent;
  }

  /** The version that an operation is sent with; null sends none (specification, sections 4.1 and 9). */
  versionOf({ group, version }: Operation): string | null {
    if (version !== undefined) return version;
    return group === 'realtime' ? null : this.#service.apiVersions[group];
  }

  /** Names and values in turn. Callers must not change the list. */
  list(version: string | null, withBody: boolean, token: string): readonly string[] {
    if (token !== this.#token) {
      this.#token = token;
      this.#lists.clear();
    }
    const key = `${withBody} ${version}`;
    let list = this.#lists.get(key);
    if (list === undefined) {
      list = this.#make(version, withBody);
      this.#lists.set(key, list);
    }
    return list;
  }

  #make(version: string | null, withBody: boolean): readonly string[] {
    const { tenantHeader, tenantId } = this.#service;
    const list = ['authorization', `Bearer ${this.#token}`, tenantHeader, tenantId];
    if (version !== null) list.push('api-version', version);
    if (withBody) list.push('content-type', 'application/json');
    list.push('accept', 'application/json', 'accept-encoding', 'gzip', 'user-agent', this.#userAgent);
    return list;
  }
}
