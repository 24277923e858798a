import { hostname } from 'node:os';
import type { NotifyOptions } from '../config/config.js';
import { CdsyncError } from '../core/errors.js';
import { decodedLogin } from '../core/secret.js';
import { isThisMachine } from '../sdk/encryption.js';
import { vendorLibrary } from '../sdk/errors.js';
import type { Message } from './message.js';
import { headline, textOf } from './message-text.js';

type EmailOptions = NonNullable<NotifyOptions['email']>;

/** The part of nodemailer that cdsync uses. */
interface Transport {
  sendMail(mail: object): Promise<unknown>;
  close(): void;
}
interface Nodemailer {
  createTransport(options: object): Transport;
}

/** @throws {CdsyncError} `connector_package_missing` */
export async function loadMailer(): Promise<Nodemailer> {
  const name = 'nodemailer';
  const library = await vendorLibrary(name, async () => (await import(name)) as { default?: Nodemailer } & Nodemailer);
  return library.default ?? library;
}

/** How to reach the server. A login goes to another machine only in an encrypted connection. */
export function transportOptions(smtp: string, deadlineMs: number): object {
  const { protocol, hostname: host, port, username, password } = new URL(smtp);
  const secure = protocol === 'smtps:';
  const isLocal = isThisMachine(host);
  const auth = { user: decodedLogin(username), pass: decodedLogin(password) };
  return {
    host: host.replace(/^\[(.*)\]$/, '$1'),
    port: port === '' ? (secure ? 465 : 587) : Number(port),
    secure,
    ...(username === '' ? {} : { auth, requireTLS: !isLocal }),
    // Many servers of this machine offer STARTTLS with a certificate for no name at all.
    ignoreTLS: !secure && isLocal,
    connectionTimeout: deadlineMs,
    greetingTimeout: deadlineMs,
    socketTimeout: deadlineMs,
  };
}

/** Of nodemailer's errors only the codes: their words quote addresses. */
function mailFailure(error: unknown, host: string): CdsyncError {
  const { code, responseCode } = (error ?? {}) as { code?: string; responseCode?: number };
  const details = [code, responseCode].filter((detail) => detail !== undefined).join(' ');
  const hints: Record<string, string> = {
    EAUTH: 'the server refuses the login of `smtp`',
    EENVELOPE: 'the server refuses the sender or a recipient: see `from` and `to`',
    ETLS: 'the server offers no encryption, or its certificate is not trusted',
  };
  return new CdsyncError(`the mail server ${host} did not take the message${details === '' ? '' : ` (${details})`}`, {
    code: 'receiver_failed',
    hint: hints[code ?? ''],
  });
}

/**
 * Sends a message as a mail.
 * @throws {CdsyncError} `receiver_failed`, `connector_package_missing`
 */
export async function sendMail(message: Message, { to, smtp, from }: EmailOptions, signal: AbortSignal): Promise<void> {
  const { createTransport } = await loadMailer();
  const { host } = new URL(smtp.reveal());
  const transport = createTransport(transportOptions(smtp.reveal(), 10_000));
  const stop = () => transport.close();
  const late = new Promise<never>((_, reject) => {
    const refuse = () => reject(Object.assign(new Error(), { code: 'ETIMEDOUT' }));
    if (signal.aborted) refuse();
    signal.addEventListener('abort', refuse, { once: true });
  });
  try {
    const mail = {
      from: from ?? `cdsync@${hostname()}`,
      to: [...to],
      subject: headline(message),
      text: textOf(message),
      // Automatic responders leave such mail alone (RFC 3834).
      headers: { 'Auto-Submitted': 'auto-generated' },
    };
    await Promise.race([transport.sendMail(mail), late]);
  } catch (error) {
    throw mailFailure(error, host);
  } finally {
    stop();
  }
}
