import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseConfig } from '../../../src/config/parse.js';
import { builtIn } from './sample.js';

const connectors = await readdir('connectors', { withFileTypes: true });
const readmes = connectors
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => join('connectors', name, 'README.md'));
const values: Record<string, string> = {
  WAREHOUSE_URL: 'postgres://loader:word@db.example.com/crm',
  LAKE_URL: 'postgres://loader:word@db.example.com/lake',
  GOOGLE_CREDENTIALS: '{"type":"service_account"}',
  SNOWFLAKE_PRIVATE_KEY: '-----BEGIN PRIVATE KEY-----\\nword\\n-----END PRIVATE KEY-----',
};

/** A whole configuration around a shown part: jobs, or the destinations of a job that has every stream they name. */
function configuration(shown: string): string {
  const service =
    'service: { base_url: "https://cds.example.com", tenant_id: acme, auth: { token: a-token-of-the-test } }';
  const head = `version: 1\n${service}\nstorage: ./data\n`;
  return shown.startsWith('jobs:') ? head + shown : head + jobAround(shown);
}

function jobAround(destinations: string): string {
  const named = [...destinations.matchAll(/streams: \[([^\]]*)\]/g)].flatMap(([, list = '']) => list.split(/, */));
  const streams = [...new Set([...named, 'members'])];
  return [
    'jobs:',
    '  nightly:',
    `    streams: [${streams.map((name) => `{ name: ${name}, source: indexes }`).join(', ')}]`,
    ...destinations.split('\n').map((line) => `    ${line}`),
  ].join('\n');
}

describe.each(['docs/destinations.md', ...readmes])('%s', (path) => {
  it('shows destinations that a configuration can have', async () => {
    const text = await readFile(path, 'utf8');
    const blocks = [...text.matchAll(/^```yaml\n(.*?)^```$/gms)].map(([, yaml = '']) => yaml);
    const shown = blocks.filter((yaml) => /^(jobs|destinations):/.test(yaml));
    expect(shown.length).toBeGreaterThan(0);
    for (const yaml of shown) {
      const variables = [...yaml.matchAll(/\$\{(\w+)\}/g)].map(([, name = '']) => name);
      const value = (name: string) =>
        values[name] ?? (name.endsWith('_URL') ? 'https://example.com/hook' : 'a-secret-of-the-test');
      const env = Object.fromEntries(variables.map((name) => [name, value(name)]));
      const { jobs } = parseConfig(configuration(yaml), join(process.cwd(), 'cdsync.yaml'), {
        env,
        needs: { destinations: true },
        connectors: builtIn,
      });
      expect(jobs[0]?.destinations.length).toBe(yaml.match(/connector:/g)?.length);
    }
  });
});
