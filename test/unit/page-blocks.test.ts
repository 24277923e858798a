import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

/*
 * Each block of commands, SQL or programs of README and docs is executed by a test, or this list says why not. YAML, and JSON that shows
 * a document, are read by test/unit/config/examples.test.ts, schema-agreement.test.ts and the tests of their pages.
 */

const root = join(import.meta.dirname, '..', '..');
const inTests = (path: string) => `test/${path}.test.ts`;

/** The tests that execute the blocks of a page. */
const executed: Readonly<Record<string, readonly string[]>> = {
  'README.md': ['integration/readme', 'integration/demo', 'integration/package'],
  'docs/analysts.md': ['integration/analysts', 'unit/snapshot/horizon', 'integration/mcp'],
  'docs/columns.md': ['unit/columns/hash-recipes', 'integration/page-commands'],
  'docs/commands.md': ['integration/page-commands'],
  'docs/deployment.md': ['integration/recipes', 'integration/schedulers', 'integration/where-it-runs'],
  'docs/getting-started.md': ['integration/page-commands'],
  'docs/library.md': ['integration/library'],
  'docs/local-service.md': ['integration/page-commands'],
  'docs/object-storage.md': ['integration/bucket-readers'],
  'docs/personal-data.md': ['integration/page-commands'],
  'docs/recovery.md': ['integration/recipes'],
  'docs/scale.md': ['integration/fleet-recipes'],
  'docs/snapshots.md': ['integration/recipes', 'integration/dbt'],
  'docs/writing-a-connector.md': ['conformance/connectors/writing-one'],
  'connectors/http/README.md': ['integration/connectors/http-batches'],
  'connectors/postgres/README.md': ['integration/connectors/postgres'],
};

const vendor = 'needs an account of the vendor: only a fake runs here';
const administrator = 'an administrator runs it once; the tests of the connector make their own schema and user';

/** Blocks that no test executes, by the beginning of page and first line, and why. */
const notExecuted: Readonly<Record<string, string>> = {
  'CONTRIBUTING.md: npm ci && npm test': 'the tests themselves',
  'CONTRIBUTING.md: npm test': 'the tests themselves',
  'CONTRIBUTING.md: CDSYNC_TEST_FAULTS': 'the tests themselves',
  'docs/performance.md: npm run bench': 'takes an hour; test/unit/bench has its parts',
  'docs/monitoring.md: #!/bin/sh':
    'sends mail with jq and mail; test/integration/notifications.test.ts runs other commands in its place',
  'connectors/bigquery/README.md: ': vendor,
  'connectors/snowflake/README.md: ': vendor,
  'connectors/clickhouse/README.md: CREATE DATABASE': administrator,
  'connectors/mysql/README.md: CREATE DATABASE': administrator,
  'connectors/clickhouse/README.md: SELECT country': 'for readers of a server; here ClickHouse runs in process',
  'connectors/ducklake/README.md: ':
    'INSTALL takes extensions from the site of DuckDB; test/integration/connectors/ducklake.test.ts reads the same tables',
  'connectors/iceberg/README.md: SELECT committed_at': 'a query for Trino or Spark, which only the long suites start',
};
const execution = new Set(['sh', 'bash', 'console', 'sql', 'python', 'js', 'ts', 'crontab', 'ini']);

interface Block {
  readonly page: string;
  readonly language: string;
  readonly first: string;
}

function blocksOf(page: string): Block[] {
  const text = readFileSync(join(root, page), 'utf8');
  const fenced = text.matchAll(/^( *)```(\w+)[^\n]*\n([\s\S]*?)^\1```$/gm);
  return [...fenced].map(([, , language = '', body = '']) => ({
    page,
    language,
    first: body.trim().split('\n')[0] ?? '',
  }));
}

const pages = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...readdirSync(join(root, 'docs')).flatMap((name) => (name.endsWith('.md') ? [`docs/${name}`] : [])),
  ...readdirSync(join(root, 'connectors'), { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? [`connectors/${entry.name}/README.md`] : [],
  ),
];
const blocks = pages.flatMap(blocksOf).filter(({ language }) => execution.has(language));

it('each block of commands, SQL or programs of the pages is executed by a test, or the list says why not', () => {
  expect(blocks.length).toBeGreaterThan(80);
  const textOf = ({ page, first }: Block) => `${page}: ${first}`;
  const isListed = (block: Block) =>
    executed[block.page] !== undefined || Object.keys(notExecuted).some((begin) => textOf(block).startsWith(begin));
  expect(blocks.filter((block) => !isListed(block))).toEqual([]);
  const unused = Object.keys(notExecuted).filter((begin) => !blocks.some((block) => textOf(block).startsWith(begin)));
  expect(unused).toEqual([]);
});

it('each of these tests reads its page', () => {
  for (const [page, tests] of Object.entries(executed)) {
    const texts = tests.map((test) => readFileSync(join(root, inTests(test)), 'utf8'));
    const name = page.split('/').at(-1) as string;
    expect([page, texts.filter((text) => !text.includes(name))]).toEqual([page, []]);
  }
});
