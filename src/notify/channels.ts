import type { NotifyOptions } from '../config/config.js';
import { asCdsyncError, type CdsyncError } from '../core/errors.js';
import { bodyOf } from './formats.js';
import type { Message } from './message.js';
import { textOf } from './message-text.js';
import type { WebhookClient } from './webhook-client.js';

/** Where a health check is told of a status: `<URL>/start`, `<URL>` or `<URL>/fail`. The URL keeps its query. */
export function pingUrl(base: string, status: Message['status']): string {
  const url = new URL(base);
  const ending = status === 'started' ? '/start' : status === 'ok' ? '' : '/fail';
  if (ending !== '') url.pathname = `${url.pathname.replace(/\/+$/, '')}${ending}`;
  return url.href;
}

/** Posts to a health check; one that only takes GET gets that. */
async function ping(http: WebhookClient, base: string, message: Message, signal: AbortSignal): Promise<void> {
  const url = pingUrl(base, message.status);
  const headers = { 'content-type': 'text/plain; charset=utf-8' };
  const post = { url, method: 'POST', headers, body: textOf(message) } as const;
  await http.send(post, signal).catch(async (error: CdsyncError) => {
    if (!/ answered 40[45]$/.test(error.message)) throw error;
    await http.send({ url, method: 'GET' }, signal);
  });
}

/** Sends one message to one receiver. @throws {CdsyncError} `receiver_failed`, `connector_package_missing` */
export async function deliver(
  { webhook, ping: check, email, format = 'json' }: NotifyOptions,
  message: Message,
  { http, signal }: { readonly http: WebhookClient; readonly signal: AbortSignal },
): Promise<void> {
  if (check !== undefined) return ping(http, check.reveal(), message, signal);
  if (webhook !== undefined) {
    const { type, text } = bodyOf(message, format);
    await http.send({ url: webhook.reveal(), method: 'POST', headers: { 'content-type': type }, body: text }, signal);
  }
  if (email !== undefined) {
    const { sendMail } = await import('./mail.js');
    await sendMail(message, email, signal);
  }
}

/** A receiver in words: its place in the list, and its host. */
export function channelName({ webhook, ping: check, email }: NotifyOptions, index: number): string {
  const kind = webhook !== undefined ? 'webhook' : check !== undefined ? 'ping' : 'email';
  const { host } = new URL((webhook ?? check ?? email?.smtp)?.reveal() ?? 'none:');
  return `notify[${index}] (${kind} to ${host})`;
}

/** Why a delivery failed, in one line. */
export function reasonOf(error: unknown): string {
  const { message, hint } = asCdsyncError(error);
  return hint === undefined ? message : `${message}; ${hint}`;
}
