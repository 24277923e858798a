import type { NotifyOptions } from '../config/config.js';
import { asCdsyncError } from '../core/errors.js';
import { visibleJson } from '../core/printable.js';
import type { Message } from './message.js';
import {
  attentionLines,
  errorLines,
  footLines,
  headline,
  resultLines,
  textOf,
  visibleMessage,
} from './message-text.js';
import type { WebhookClient } from './webhook-client.js';

/** A text of at most that many characters, cut between two of them. */
function within(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1).toWellFormed()}…`;
}

/** The limits of Slack's Block Kit: https://docs.slack.dev/reference/block-kit/blocks */
const slackLimits = { header: 150, section: 3000, text: 4000 };

/** The three characters that Slack's own markup begins with; nothing else needs escaping. */
function slackText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** An escaped text of at most that many characters; the cut does not divide an escaped character. */
function slackWithin(text: string, length: number): string {
  const escaped = slackText(text);
  return escaped.length <= length
    ? escaped
    : `${escaped.slice(0, length - 1).replace(/&[a-z]{0,3}$/, '')}…`.toWellFormed();
}

function slackSection(lines: readonly string[]): object[] {
  if (lines.length === 0) return [];
  const text = slackWithin(lines.join('\n'), slackLimits.section);
  return [{ type: 'section', text: { type: 'mrkdwn', text, verbatim: true } }];
}

/** A message for an incoming webhook of Slack: blocks, and a text for notifications. */
function slack(message: Message): unknown {
  const title = headline(message);
  const foot = footLines(message).join(' · ');
  return {
    text: slackWithin(title, slackLimits.text),
    blocks: [
      { type: 'header', text: { type: 'plain_text', text: within(title, slackLimits.header), emoji: false } },
      ...slackSection(errorLines(message)),
      ...slackSection(attentionLines(message)),
      ...slackSection(resultLines(message)),
      ...(foot === ''
        ? []
        : [
            {
              type: 'context',
              elements: [{ type: 'plain_text', text: within(foot, slackLimits.section), emoji: false }],
            },
          ]),
    ],
  };
}

/** Workflows take messages of 28 KB; each of four paragraphs may have a share of that. */
const teamsParagraphBytes = 6000;

/** A text of at most that many bytes in a JSON document. */
function withinBytes(text: string, bytes: number): string {
  const lengthOf = (of: string) => Buffer.byteLength(JSON.stringify(of));
  if (lengthOf(text) <= bytes) return text;
  let kept = text.slice(0, bytes);
  while (lengthOf(kept) > bytes - 6) kept = kept.slice(0, Math.floor(kept.length * 0.9));
  return `${kept.toWellFormed()}…`;
}

/** Runs of plain text: unlike a TextBlock, they have no markup that a name could begin. */
function paragraph(lines: readonly string[], look: object = {}): object[] {
  if (lines.length === 0) return [];
  const inlines = [{ type: 'TextRun', text: withinBytes(lines.join('\n'), teamsParagraphBytes), ...look }];
  return [{ type: 'RichTextBlock', inlines, separator: true, spacing: 'medium' }];
}

const teamsColours: Record<Message['status'], string> = {
  started: 'default',
  ok: 'good',
  held: 'warning',
  partial: 'attention',
  failed: 'attention',
  interrupted: 'warning',
};

/** An Adaptive Card in the envelope that a workflow of Teams ("When a Teams webhook request is received") takes. */
function teams(message: Message): unknown {
  const title = { type: 'TextRun', text: headline(message), weight: 'bolder', size: 'medium' };
  const content = {
    $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
    type: 'AdaptiveCard',
    version: '1.4',
    msteams: { width: 'Full' },
    fallbackText: headline(message),
    body: [
      { type: 'RichTextBlock', inlines: [{ ...title, color: teamsColours[message.status] }] },
      ...paragraph(errorLines(message)),
      ...paragraph(attentionLines(message)),
      ...paragraph(resultLines(message)),
      ...paragraph(footLines(message), { isSubtle: true, size: 'small' }),
    ],
  };
  const attachment = { contentType: 'application/vnd.microsoft.card.adaptive', contentUrl: null, content };
  return { type: 'message', attachments: [attachment] };
}

/** A message in the format of a webhook. */
export function bodyOf(
  message: Message,
  format: NonNullable<NotifyOptions['format']>,
): { readonly type: string; readonly text: string } {
  if (format === 'text') return { type: 'text/plain; charset=utf-8', text: textOf(message) };
  const documents = {
    json: () => message,
    slack: () => slack(visibleMessage(message)),
    teams: () => teams(visibleMessage(message)),
  };
  return { type: 'application/json', text: visibleJson(JSON.stringify(documents[format]())) };
}

/** Where a health check is pinged with a status: `<URL>/start`, `<URL>` or `<URL>/fail`. The URL keeps its query. */
export function pingUrl(base: string, status: Message['status']): string {
  const url = new URL(base);
  const ending = status === 'started' ? '/start' : status === 'ok' ? '' : '/fail';
  if (ending !== '') url.pathname = `${url.pathname.replace(/(?<!\/)\/+$/, '')}${ending}`;
  return url.href;
}

/** Posts to a health check; one that only takes GET gets that. */
async function ping(http: WebhookClient, base: string, message: Message, signal: AbortSignal): Promise<void> {
  const url = pingUrl(base, message.status);
  const headers = { 'content-type': 'text/plain; charset=utf-8' };
  await http.send({ url, method: 'POST', headers, body: textOf(message), orGet: true }, signal);
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
