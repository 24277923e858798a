/** Where a tunnel leads. */
export interface Target {
  /** As in a URL: an IPv6 address in brackets. */
  readonly hostname: string;
  readonly port: number;
}

/** The proxy has made no tunnel. The message names it without its login. */
export class ProxyFailure extends Error {
  /** `EPROXYLOGIN` if it does not know the caller. */
  readonly code: 'EPROXY' | 'EPROXYLOGIN';

  constructor(message: string, code: ProxyFailure['code']) {
    super(message);
    this.code = code;
  }
}
