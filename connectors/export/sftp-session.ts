import { createHash, createPrivateKey, randomBytes } from 'node:crypto';
import type { Client, ConnectConfig, ServerHostKeyAlgorithm, SFTPWrapper } from 'ssh2';
import {
  CdsyncError,
  callAfter,
  loadRefused,
  loginRefused,
  type Secret,
  unavailable,
  vendorLibrary,
} from '../../src/sdk/index.js';

/** Where a server is, and how to log in. */
export interface SftpLogin {
  readonly url: string;
  readonly password?: Secret | undefined;
  readonly privateKey?: Secret | undefined;
  readonly keyPassphrase?: Secret | undefined;
  readonly agent: boolean;
  readonly hostKey?: string | readonly string[] | undefined;
  readonly signal: AbortSignal;
  /** For tests. */
  readonly answerMs?: number;
}

/** Kinds of host keys, in the order in which they are asked for: a server shows one of each connection. */
const kinds: readonly (readonly [string, readonly ServerHostKeyAlgorithm[]])[] = [
  ['ed25519', ['ssh-ed25519']],
  ['ecdsa', ['ecdsa-sha2-nistp256', 'ecdsa-sha2-nistp384', 'ecdsa-sha2-nistp521']],
  ['rsa', ['rsa-sha2-512', 'rsa-sha2-256']],
];
const readyMs = 20_000;
/** If nothing arrives for three times as long, the connection is given up. */
const keepaliveMs = 10_000;
/** The same if requests wait without a response: the connection may live on although its SFTP has stopped. */
const answerMs = 300_000;

/** A field of the format of OpenSSH: its length, then its bytes. */
function field(value: string | Buffer): Buffer {
  const bytes = Buffer.from(value as string);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

/** An Ed25519 key of PKCS#8 as OpenSSH writes it: the library reads no other. */
function openSshKey(jwk: { readonly d?: string | undefined; readonly x?: string | undefined }): string {
  const [secret, open] = [Buffer.from(jwk.d ?? '', 'base64url'), Buffer.from(jwk.x ?? '', 'base64url')];
  const shown = Buffer.concat([field('ssh-ed25519'), field(open)]);
  const check = randomBytes(4);
  const box = Buffer.concat([check, check, shown, field(Buffer.concat([secret, open])), field('')]);
  const padding = Buffer.from(Array.from({ length: (8 - (box.length % 8)) % 8 }, (_, at) => at + 1));
  const count = Buffer.from([0, 0, 0, 1]);
  const head = Buffer.concat([
    Buffer.from('openssh-key-v1\0'),
    field('none'),
    field('none'),
    field(''),
    count,
    field(shown),
  ]);
  const text = Buffer.concat([head, field(Buffer.concat([box, padding]))]).toString('base64');
  return `-----BEGIN OPENSSH PRIVATE KEY-----\n${text.replace(/(.{70})/g, '$1\n')}\n-----END OPENSSH PRIVATE KEY-----\n`;
}

/** A private key in a format that the library reads. */
function readableKey(key: string, passphrase: string | undefined): string {
  if (!/-----BEGIN (ENCRYPTED )?PRIVATE KEY-----/.test(key)) return key;
  try {
    const parsed = createPrivateKey({ key, ...(passphrase === undefined ? {} : { passphrase }) });
    if (parsed.asymmetricKeyType === 'ed25519') return openSshKey(parsed.export({ format: 'jwk' }));
    return parsed.export({
      format: 'pem',
      type: parsed.asymmetricKeyType === 'ec' ? 'sec1' : 'pkcs1',
    } as never) as unknown as string;
  } catch (cause) {
    throw keyRefused(cause);
  }
}

function keyRefused(cause: unknown): CdsyncError {
  return loginRefused('`private_key` cannot be read, or `key_passphrase` is wrong', {
    hint: 'give the whole file, with its first and last line; ssh-keygen -yf FILE tests it',
    cause,
    causeQuotesValues: true,
  });
}

function agentSocket(): string {
  const { SSH_AUTH_SOCK: socket = '' } = process.env;
  if (socket !== '') return socket;
  throw loginRefused('`agent: true`, and no SSH agent is there', {
    hint: 'start one (ssh-agent, then ssh-add), and let cdsync see its SSH_AUTH_SOCK; or give `private_key`',
  });
}

/** The fingerprint of a host key, as `ssh-keygen -l` shows it. */
function fingerprint(key: Buffer): string {
  return `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`;
}

class WrongHostKey extends Error {}

/** The responses that a connection owes. */
class Responses {
  /** Rejects when the connection is gone, or has not answered for long. */
  readonly #lost: Promise<never>;
  #giveUp: () => void = () => undefined;
  readonly #ms: number;
  #waiting = 0;
  #stopWatch: (() => void) | undefined;

  constructor(client: Client, host: string, ms: number) {
    this.#ms = ms;
    this.#lost = new Promise<never>((_, reject) => {
      client.on('error', (error) => reject(connectionError(error, host)));
      client.on('close', () => reject(unavailable(`${host} has closed the connection`)));
      this.#giveUp = () => {
        reject(unavailable(`${host} keeps the connection, and has answered no request for ${ms / 1000} s`));
        client.destroy();
      };
    });
    this.#lost.catch(() => undefined);
  }

  /** A response, or the end of the connection: the library lets it wait for ever. */
  async of<T>(response: Promise<T>): Promise<T> {
    response.catch(() => undefined);
    this.#watch(1);
    try {
      return await Promise.race([response, this.#lost]);
    } finally {
      this.#watch(-1);
    }
  }

  #watch(change: number): void {
    this.#waiting += change;
    this.#stopWatch?.();
    this.#stopWatch = this.#waiting === 0 ? undefined : callAfter(this.#ms, this.#giveUp);
  }
}

/** A connection with a server whose key is known. Each call ends when the connection does. */
export class SftpSession {
  readonly client: Client;
  readonly sftp: SFTPWrapper;
  readonly host: string;
  /** The key that the server has shown. */
  readonly shown: string;
  readonly #responses: Responses;

  private constructor(client: Client, sftp: SFTPWrapper, responses: Responses, names: { host: string; shown: string }) {
    this.client = client;
    this.sftp = sftp;
    this.#responses = responses;
    this.host = names.host;
    this.shown = names.shown;
  }

  /** @throws {CdsyncError} `destination_tls` before any login went out, if the server shows none of the keys */
  static async open(login: SftpLogin): Promise<SftpSession> {
    const seen: string[] = [];
    const { host } = new URL(login.url);
    for (const [kind, serverHostKey] of kinds) {
      try {
        return await SftpSession.#connect(login, { kind, serverHostKey, seen });
      } catch (error) {
        if (!(error instanceof WrongHostKey)) throw error;
      }
    }
    const pins = [login.hostKey ?? []].flat().join(', ');
    const shown = seen.length === 0 ? 'no key of a kind that cdsync knows' : seen.join(', ');
    throw new CdsyncError(`${host} shows ${shown}, and \`host_key\` has ${pins}; nothing was sent, not even a login`, {
      code: 'destination_tls',
      hint: 'ask the operator whether the key was replaced, then correct `host_key`',
    });
  }

  static async #connect(
    login: SftpLogin,
    {
      kind,
      serverHostKey,
      seen,
    }: { readonly kind: string; readonly serverHostKey: readonly ServerHostKeyAlgorithm[]; readonly seen: string[] },
  ): Promise<SftpSession> {
    const { Client } = (await vendorLibrary('ssh2', () => import('ssh2'))).default;
    const { hostname, host, port, username } = new URL(login.url);
    const password = login.password?.reveal();
    const passphrase = login.keyPassphrase?.reveal();
    const key = login.privateKey && readableKey(login.privateKey.reveal(), passphrase);
    const pins = [login.hostKey ?? []].flat().map((pin) => pin.replace(/=+$/, ''));
    const client = new Client();
    let shown = '';
    const config: ConnectConfig = {
      ...{ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 22), username: decodeURIComponent(username) },
      ...{ readyTimeout: readyMs, keepaliveInterval: keepaliveMs, keepaliveCountMax: 3 },
      ...(password === undefined ? {} : { password, tryKeyboard: true }),
      ...(key === undefined ? {} : { privateKey: key }),
      ...(passphrase === undefined ? {} : { passphrase }),
      ...(login.agent ? { agent: agentSocket() } : {}),
      // A server that wants a key and a password wants the key first.
      authHandler: ['none', 'publickey', 'agent', 'password', 'keyboard-interactive'],
      algorithms: { serverHostKey: [...serverHostKey] },
      hostVerifier: (presented: Buffer) => {
        const print = fingerprint(presented);
        shown = `${kind} ${print}`;
        seen.push(shown);
        return pins.includes(print);
      },
    };
    client.on('keyboard-interactive', (_name, _instructions, _lang, prompts, finish) =>
      finish(prompts.map(() => password ?? '')),
    );
    const responses = new Responses(client, host, login.answerMs ?? answerMs);
    const abort = () => client.destroy();
    login.signal.addEventListener('abort', abort);
    client.on('close', () => login.signal.removeEventListener('abort', abort));
    try {
      const ready = new Promise<void>((resolve) => client.once('ready', resolve));
      client.connect(config);
      await responses.of(ready);
      client.setNoDelay(true);
      const opened = new Promise<SFTPWrapper>((resolve, reject) =>
        client.sftp((error, sftp) =>
          error ? reject(loadRefused(`${host} has no SFTP`, { cause: error })) : resolve(sftp),
        ),
      );
      return new SftpSession(client, await responses.of(opened), responses, { host, shown });
    } catch (error) {
      client.destroy();
      login.signal.throwIfAborted();
      const isWrong = seen.length > 0 && seen.at(-1) === shown && !pins.includes(shown.split(' ')[1] ?? '');
      if (isWrong || /no matching host key/i.test(String((error as { cause?: Error }).cause?.message)))
        throw new WrongHostKey();
      throw error instanceof CdsyncError ? error : /privateKey/i.test(String(error)) ? keyRefused(error) : error;
    }
  }

  /** One call, which ends when the connection does. */
  call<T = void>(start: (done: (error: Error | null | undefined, value?: T) => void) => void): Promise<T> {
    return this.#responses.of(
      new Promise<T>((resolve, reject) => {
        start((error, value) => (error ? reject(error) : resolve(value as T)));
      }),
    );
  }

  close(): void {
    this.client.destroy();
  }
}

function connectionError(
  error: Error & { readonly level?: string; readonly code?: string },
  host: string,
): CdsyncError {
  if (error.level === 'client-authentication')
    return loginRefused(`${host} refuses the login`, {
      hint: 'check user, `password`, `private_key` and the keys of the agent (ssh-add -l); the operator must know the public key',
      cause: error,
    });
  return unavailable(`${host} cannot be reached, or has gone away (${error.code ?? error.level ?? 'no answer'})`, {
    cause: error,
  });
}
