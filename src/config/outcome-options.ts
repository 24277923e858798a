import { Secret } from '../core/secret.js';
import { z } from '../core/zod.js';
import { isThisMachine } from '../sdk/encryption.js';
import {
  choice,
  duration,
  flag,
  map,
  type OptionInfo,
  type OptionProblem,
  option,
  path,
  secret,
  text,
  verbatim,
} from '../sdk/option.js';

/** The events of runs. `partial` is also `failed`. */
export const runEvents = [
  'started',
  'ok',
  'failed',
  'held',
  'partial',
  'interrupted',
  'recovered',
  'unusual',
  'schema_changed',
  'deprecated',
] as const;
export type RunEvent = (typeof runEvents)[number];

/** Whether a login or a query of the URL, which are secrets, would go to another machine in plain text. */
function isReadableSecret(written: string): boolean {
  if (!URL.canParse(written)) return false;
  const { protocol, hostname, username, password, search } = new URL(written);
  return protocol === 'http:' && username + password + search !== '' && !isThisMachine(hostname);
}

/** An address that may have a token in it: code gets a secret. */
function address(info: OptionInfo) {
  const schema = z
    .string()
    .regex(/^https?:\/\/[^\s/?#]+\S*$/)
    .refine(URL.canParse, 'is not a URL; write it as https://host/path')
    .refine(
      (written) => !isReadableSecret(written),
      'its login or its query would go to another machine without encryption; use https://',
    )
    .transform((written) => new Secret(written));
  return option(schema, { allowed: 'a URL that begins with https:// or http://', ...info, secret: true });
}

const recipient = verbatim({ description: 'An address.', example: 'ops@example.com' });

const email = map({
  to: option(z.array(recipient).min(1), {
    description: 'Who gets the mail.',
    example: ['ops@example.com'],
    allowed: 'a list of at least one address',
  }),
  smtp: secret(/^smtps?:\/\/([^\s/?#@[\]]+@)?([^\s/?#@:[\]]+|\[[\da-f:.]+\])(:\d+)?\/?$/i, {
    description:
      'The mail server. `smtps://` is encrypted from the start; a login over `smtp://` goes to another machine only after STARTTLS. Needs `npm install nodemailer`.',
    example: '${SMTP_URL}',
    allowed: 'a URL that begins with smtp:// or smtps://',
  }),
  from: verbatim({
    description: 'The sender. Default: `cdsync@` and the name of this machine.',
    example: 'cdsync@example.com',
  }).optional(),
});

/** Rules between the keys of a receiver. */
function receiverRules(value: unknown): OptionProblem[] {
  const { on, webhook, ping, format } = value as Record<string, unknown>;
  const findings: OptionProblem[] = [];
  if (format !== undefined && webhook === undefined)
    findings.push({ path: ['format'], message: 'only a webhook has a format' });
  for (const [index, event] of Array.isArray(on) && ping !== undefined ? on.entries() : []) {
    if (event === 'unusual' || event === 'schema_changed' || event === 'deprecated')
      findings.push({
        path: ['on', index],
        message: `a ping cannot say ${event}: use a webhook or email`,
      });
  }
  return findings;
}

const receiver = map({
  on: option(z.array(choice(runEvents, { description: 'An event.', example: 'failed' })).min(1), {
    description:
      'The events to send: `started`; `ok`; `failed`, `partial` included; `partial`; `held` by a guard; `interrupted`; `recovered`: ok after failed or held; `unusual`: rows, changes or time far from the past of the stream; `schema_changed`: a column was added or has another type; `deprecated`: the service announced the end of an API version.',
    example: ['failed', 'held', 'recovered'],
    allowed: `a list of: ${runEvents.join(', ')}`,
  }),
  webhook: address({
    description: 'Posts a message to this URL. cdsync shows only its host, and follows no redirects.',
    example: '${SLACK_URL}',
  }).optional(),
  format: choice(['json', 'slack', 'teams', 'text'], {
    description:
      'The format of the message: a JSON document, a message for Slack, a card for Microsoft Teams (its Workflows), or plain text.',
    example: 'slack',
  }).optional(),
  ping: address({
    description:
      'Pings a health check: `<URL>/start` when a run starts, `<URL>` when it is ok, `<URL>/fail` when it is anything else. Set `every: true` with it.',
    example: '${HEALTHCHECK_URL}',
  }).optional(),
  email: option(email, { description: 'Sends a mail.' }).optional(),
  every: flag({
    description: 'Notifies of each run. Without it, the receiver is notified when the status changes.',
    example: true,
  }).prefault(false),
});

const notify = option(
  z.array(
    option(receiver, {
      description: 'One receiver.',
      forms: [['webhook'], ['ping'], ['email']],
      check: receiverRules,
    }),
  ),
  {
    description:
      'Who is notified of runs. A receiver that is down fails no run; it gets the message with the next run.',
    allowed: 'a list, such as { on: [failed], webhook: "${SLACK_URL}", format: slack }',
  },
).prefault([]);

const collector = z
  .string()
  .regex(/^$|^https?:\/\/[^\s/?#@]+(\/[^\s?#]*)?$/)
  .refine((written) => written === '' || URL.canParse(written), 'is not a URL');

export const metricsOptions = {
  textfile: path({
    description:
      "File for Prometheus: put it into the folder of node_exporter's textfile collector. All jobs of this configuration may name one file.",
    example: './metrics/cdsync.prom',
  }).optional(),
  otlp: option(collector, {
    description:
      'Address of an OpenTelemetry collector (OTLP over HTTP): it gets metrics at `/v1/metrics`. Empty text sends nothing. Headers, such as a login, are read from the variable `OTEL_EXPORTER_OTLP_HEADERS`.',
    example: '${OTEL_EXPORTER_OTLP_ENDPOINT:-}',
    allowed: 'empty, or a URL that begins with https:// or http://, without a login and without a query',
  }).optional(),
};

const metrics = option(map(metricsOptions), { description: 'Where figures of each run go.' }).prefault({});

const command = map({
  run: option(z.array(text({ description: 'A word.', example: '{status}' })).min(1), {
    description:
      'The program and its words; no shell reads them. `{job}`, `{run_id}`, `{status}` and `{report}` (path of the report) are replaced.',
    example: ['./notify.sh', '{status}'],
    allowed: 'a list of words, such as ["./notify.sh", "{status}"]',
  }),
  deadline: duration({
    description: 'If the command has not ended by then, cdsync stops it and all that it has started.',
    example: '30s',
  }).prefault('5m'),
});

const after = option(z.array(option(command, { description: 'One command.' })), {
  description:
    'Commands after each run, one after the other, in the folder of this file. A failure is a warning, and fails no run. They also get CDSYNC_JOB, CDSYNC_RUN_ID, CDSYNC_STATUS, CDSYNC_REPORT and CDSYNC_RETRY (true if the same command alone may mend it), but no variable that holds a secret of this file.',
  allowed: 'a list, such as { run: ["./notify.sh", "{status}"] }',
}).prefault([]);

/** The keys of a job for what happens when a run is over. */
export const outcomeKeys = { notify, metrics, after };
