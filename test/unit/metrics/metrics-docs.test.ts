import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { parseConfig } from '../../../src/config/parse.js';
import { families, prometheusName, samplesOf } from '../../../src/metrics/samples.js';
import { messageSchema } from '../../../src/notify/message.js';
import { textOf } from '../../../src/notify/message-text.js';
import { destinationReport, runEnd } from '../../fixtures/run-ends.js';

const names = families.map(prometheusName);

/** The labels of each metric in a run that has everything. */
const labels = new Map<string, Set<string>>();
for (const sample of samplesOf(runEnd({ destinations: [destinationReport()] }), [])) {
  const family = families.find(({ name }) => name === sample.name);
  labels.set(prometheusName(family as (typeof families)[number]), new Set(Object.keys(sample.labels)));
}

/** The faults of a query of Prometheus: metrics and labels that cdsync does not write. */
function faultsOf(query: string): string[] {
  const used = [...query.matchAll(/\b(cdsync_\w+)(?:\{([^}]*)\})?/g)];
  if (used.length === 0) return [`no metric: ${query}`];
  return used.flatMap(([, name = '', matchers = '']) => {
    const known = labels.get(name);
    if (known === undefined) return [`no such metric: ${name}`];
    const keys = [...matchers.matchAll(/(\w+)\s*(?:=~|=|!=|!~)/g)].map(([, key = '']) => key);
    return keys.filter((key) => !known.has(key)).map((key) => `${name} has no label ${key}`);
  });
}

const yamlBlocks = (text: string) => [...text.matchAll(/^```yaml\n(.*?)^```$/gms)].map(([, yaml = '']) => yaml);

describe('docs/monitoring.md', () => {
  it('shows configurations that can be loaded', async () => {
    const blocks = yamlBlocks(await readFile('docs/monitoring.md', 'utf8'));
    expect(blocks.length).toBeGreaterThan(0);
    const service = '{ base_url: "https://cds.example.com", tenant_id: acme, auth: { token: a-token-of-the-test } }';
    for (const yaml of blocks) {
      const env = {
        SLACK_URL: 'https://a.example.com/x',
        HEALTHCHECK_URL: 'https://b.example.com/y',
        SMTP_URL: 'smtps://c',
      };
      const text = `version: 1\nservice: ${service}\n${yaml}`;
      const { jobs, warnings } = parseConfig(text, join(process.cwd(), 'cdsync.yaml'), {
        env,
        needs: { outcome: true },
      });
      expect(jobs).toHaveLength(1);
      expect(warnings).toEqual([expect.stringContaining('plain-text secret in the file')]);
    }
  });
});

describe('docs/monitoring.md, notifications', () => {
  it('shows a JSON message that cdsync could send', async () => {
    const [, json = ''] = /^```json\n(.*?)^```$/ms.exec(await readFile('docs/monitoring.md', 'utf8')) ?? [];
    const message = messageSchema.strict().parse(JSON.parse(json));
    expect(Object.keys(JSON.parse(json))).toEqual(Object.keys(messageSchema.shape));
    expect(textOf(message)).toContain('cdsync nightly: held');
  });
});

describe('docs/monitoring.md, metrics', () => {
  it('lists every metric with its type, its labels and its help', async () => {
    const text = await readFile('docs/monitoring.md', 'utf8');
    const rows = [...text.matchAll(/^\| `(cdsync_\w+)` \| (\w+) \| ([\w, ]+) \| (.*) \|$/gm)];
    const listed = rows.map(([, name = '', kind, of = '', help]) => ({
      name,
      kind,
      labels: of.split(', ').sort(),
      help,
    }));
    const written = families.map((family) => {
      const name = prometheusName(family);
      return { name, kind: family.kind, labels: [...(labels.get(name) ?? [])].sort(), help: family.help };
    });
    expect(listed).toEqual(written);
    expect(names.length).toBeGreaterThan(20);
  });
});

describe('docs/metrics/alerts.yml', () => {
  it('has rules on metrics and labels that cdsync writes', async () => {
    const { groups } = parse(await readFile('docs/metrics/alerts.yml', 'utf8'));
    const rules = groups.flatMap((group: { rules: object[] }) => group.rules);
    expect(rules.length).toBeGreaterThan(5);
    for (const { alert, expr, labels: own, annotations } of rules) {
      expect([alert, faultsOf(expr)]).toEqual([alert, []]);
      expect(own.severity).toMatch(/^(critical|warning|info)$/);
      const shown = [...`${annotations.summary}`.matchAll(/\$labels\.(\w+)/g)].map(([, key = '']) => key);
      const [, name = ''] = /\b(cdsync_\w+)/.exec(expr) ?? [];
      expect(shown.filter((key) => !labels.get(name)?.has(key))).toEqual([]);
    }
  });
});

describe('docs/metrics/dashboard.json', () => {
  it('has panels on metrics and labels that cdsync writes, side by side without overlap', async () => {
    const { panels, templating } = JSON.parse(await readFile('docs/metrics/dashboard.json', 'utf8'));
    expect(panels.length).toBeGreaterThan(8);
    const taken = new Set<string>();
    for (const { title, targets, gridPos } of panels) {
      for (const { expr } of targets) expect([title, faultsOf(expr)]).toEqual([title, []]);
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1)
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
          expect(taken.has(`${x},${y}`)).toBe(false);
          taken.add(`${x},${y}`);
        }
    }
    for (const { type, definition } of templating.list) if (type === 'query') expect(faultsOf(definition)).toEqual([]);
  });

  it('shows every kind of figure', async () => {
    const text = await readFile('docs/metrics/dashboard.json', 'utf8');
    for (const name of ['cdsync_run_status', 'cdsync_stream_rows', 'cdsync_destination_status'])
      expect(text).toContain(name);
  });
});
