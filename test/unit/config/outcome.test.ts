import { describe, expect, it } from 'vitest';
import { pairsOf } from '../../../src/metrics/otlp.js';
import { head, parse, problemsOf } from './sample.js';

const job = (...lines: string[]) => `${head}jobs:
  a:
    streams: [{ name: members, source: indexes }]
${lines.map((line) => `    ${line}\n`).join('')}`;

const needs = { outcome: true };
const notifying = (receiver: string) => job('notify:', `  - ${receiver}`);

describe('notify', () => {
  it('takes a webhook, a ping or a mail', () => {
    const text = job(
      'notify:',
      '  - { on: [failed, held, recovered], webhook: "${SLACK_URL}", format: slack }',
      '  - { on: [started, ok, failed], ping: "${HEALTHCHECK_URL}", every: true }',
      '  - { on: [failed], email: { to: [ops@example.com], smtp: "${SMTP_URL}" } }',
      '  - { on: [unusual], webhook: "${SLACK_URL}" }',
    );
    const env = {
      SLACK_URL: 'https://hooks.example.com/services/T0/B0/hidden-part',
      HEALTHCHECK_URL: 'https://hc.example.com/ping/1b2',
      SMTP_URL: 'smtps://user:word@mail.example.com',
    };
    const { jobs, warnings, secretVariables } = parse(text, env, needs);
    const [slack, ping, mail, json] = jobs[0]?.notify ?? [];
    expect(slack).toMatchObject({ on: ['failed', 'held', 'recovered'], format: 'slack', every: false });
    expect(slack?.webhook?.reveal()).toBe(env.SLACK_URL);
    expect(ping).toMatchObject({ every: true });
    expect(mail?.email?.to).toEqual(['ops@example.com']);
    expect(json?.format).toBeUndefined();
    expect(JSON.stringify(jobs)).not.toMatch(/hidden-part|word@|1b2/);
    expect(warnings).toEqual([]);
    expect(secretVariables).toEqual(expect.arrayContaining(Object.keys(env)));
    // A command that sends no notifications or metrics needs none of the variables.
    expect(parse(text, {}).jobs[0]).toMatchObject({ notify: [], metrics: {}, after: [] });
    expect(problemsOf(text, {}, needs)).toHaveLength(4);
  });

  it('is inherited, and a list of a job replaces it', () => {
    const text = `${head}defaults:
  notify: [{ on: [failed], webhook: "https://hooks.example.com/x" }]
  metrics: { textfile: ./metrics/cdsync.prom }
jobs:
  a: { streams: [{ name: members, source: indexes }] }
  b: { streams: [{ name: members, source: indexes }], notify: [] }
`;
    const { jobs } = parse(text, {}, needs);
    expect(jobs.map(({ notify }) => notify.length)).toEqual([1, 0]);
    expect(jobs.map(({ metrics }) => metrics.textfile)).toEqual(Array(2).fill('/srv/sync/metrics/cdsync.prom'));
  });

  it.each([
    ['{ on: [failed] }', 'incomplete'],
    [
      '{ on: [failed], webhook: "https://a.example.com/x", ping: "https://a.example.com/x" }',
      'use only one of these forms',
    ],
    ['{ on: [], webhook: "https://a.example.com/x" }', 'found an empty list'],
    ['{ on: [locked], webhook: "https://a.example.com/x" }', 'unknown value'],
    ['{ on: [failed], ping: "https://a.example.com/x", format: text }', 'only a webhook has a format'],
    ['{ on: [unusual], ping: "https://a.example.com/x" }', 'a ping cannot say'],
    ['{ on: [failed], webhook: "ftp://a.example.com/x" }', 'a URL that begins with https:// or http://'],
    ['{ on: [failed], webhook: "http://a.example.com/x?token=abc" }', 'without encryption; use https://'],
    ['{ on: [failed], webhook: "http://user:word@a.example.com/" }', 'without encryption; use https://'],
    ['{ on: [failed], email: { to: [], smtp: "smtp://localhost" } }', 'a list of at least one address'],
    ['{ on: [failed], email: { to: [a@example.com], smtp: "https://x" } }', 'smtp://'],
  ])('refuses %s', (receiver, words) => {
    const problems = problemsOf(notifying(receiver), {}, needs).join('\n');
    expect(problems).toContain(words);
    expect(problems).not.toMatch(/token=|word@/);
  });

  it('takes plain http to this machine, and warns of another one', () => {
    const local = parse(notifying('{ on: [failed], webhook: "http://127.0.0.1:9/x?token=abc" }'), {}, needs);
    expect(local.warnings).toEqual([expect.stringContaining('plain-text secret in the file')]);
    const other = parse(notifying('{ on: [failed], webhook: "${URL}" }'), { URL: 'http://alerts.internal/x' }, needs);
    expect(other.warnings).toEqual([expect.stringContaining('plain http to another machine')]);
  });

  it.each([
    ['smtp://localhost:25', []],
    ['smtp://user:word@localhost', [expect.stringContaining('plain-text secret in the file')]],
  ])('takes a mail server as text, and warns of its login: %s', (smtp, warnings) => {
    const mail = `{ on: [failed], email: { to: [ops@example.com], smtp: "${smtp}" } }`;
    expect(parse(notifying(mail), {}, needs).warnings).toEqual(warnings);
  });

  it.each([
    ['webhook', 'https://a.example.com/alerts', 0],
    ['webhook', 'https://a.example.com/services/T0/B0/abcdefghijklmnop', 1],
    ['webhook', 'https://a.example.com/x?id=1', 1],
    ['webhook', 'https://tokentoken@a.example.com/x', 1],
    ['ping', 'https://hc.example.com/6f1e9f1c-9d6b-4c39-8f0e-2f5a6b1c7d20', 1],
    ['ping', 'https://hc.example.com/nightly', 0],
  ])('calls a URL a secret only if it has one: %s %s', (kind, url, count) => {
    const { warnings } = parse(notifying(`{ on: [failed, ok], ${kind}: "${url}", every: true }`), {}, needs);
    expect(warnings.filter((warning) => warning.includes('plain-text secret'))).toHaveLength(count);
  });

  it('warns of a health check that is not pinged each run', () => {
    const env = { URL: 'https://hc.example.com/ping/1b2' };
    const { warnings } = parse(notifying('{ on: [ok], ping: "${URL}" }'), env, needs);
    expect(warnings).toEqual([expect.stringContaining('set every: true')]);
  });
});

describe('metrics', () => {
  const text = job('metrics: { textfile: ./metrics/cdsync.prom, otlp: "${OTEL_EXPORTER_OTLP_ENDPOINT:-}" }');

  it('send nothing if the variable of the collector is empty or not set', () => {
    const off = { textfile: '/srv/sync/metrics/cdsync.prom' };
    expect(parse(text, {}, needs).jobs[0]?.metrics).toEqual(off);
    expect(parse(text, { OTEL_EXPORTER_OTLP_ENDPOINT: '' }, needs).jobs[0]?.metrics).toEqual(off);
  });

  it('take the headers of the collector from its variable, as a secret', () => {
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'https://otlp.example.com', OTEL_EXPORTER_OTLP_HEADERS: 'api-key=abc' };
    const config = parse(text, env, needs);
    const { otlp } = config.jobs[0]?.metrics ?? {};
    expect(otlp?.endpoint).toBe('https://otlp.example.com');
    expect(otlp?.headers?.reveal()).toBe('api-key=abc');
    expect(JSON.stringify(config)).not.toContain('abc');
    expect(config.secretVariables).toContain('OTEL_EXPORTER_OTLP_HEADERS');
  });

  it('name the sender as OpenTelemetry does: OTEL_SERVICE_NAME counts before the resource attributes', () => {
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'https://otlp.example.com' };
    const resource = (more: Record<string, string>) =>
      pairsOf(parse(text, { ...env, ...more }, needs).jobs[0]?.metrics.otlp?.resource);
    const attributes = 'service.name=runs,team=crm';
    expect(resource({})).toEqual({});
    expect(resource({ OTEL_RESOURCE_ATTRIBUTES: attributes })).toEqual({ 'service.name': 'runs', team: 'crm' });
    expect(resource({ OTEL_RESOURCE_ATTRIBUTES: attributes, OTEL_SERVICE_NAME: 'a, b=c' })).toEqual({
      'service.name': 'a, b=c',
      team: 'crm',
    });
  });

  it.each(['grpc://x:4317', 'https://user:word@x', 'https://x/?key=abc'])('refuse %s', (url) => {
    expect(problemsOf(job(`metrics: { otlp: "${url}" }`), {}, needs)).toHaveLength(1);
  });
});

describe('after', () => {
  it('takes commands as lists of words, with a deadline of five minutes', () => {
    const text = job('after: [{ run: ["./notify.sh", "{status}"] }, { run: [true], deadline: 30s }]');
    expect(parse(text, {}, needs).jobs[0]?.after).toEqual([
      { run: ['./notify.sh', '{status}'], deadline: 300_000 },
      { run: ['true'], deadline: 30_000 },
    ]);
  });

  it.each(['after: [{ run: ./notify.sh }]', 'after: [{ run: [] }]', 'after: [./notify.sh]'])('refuses %s', (line) => {
    expect(problemsOf(job(line), {}, needs)).toHaveLength(1);
  });
});
