import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { connectMcp } from '../fixtures/mcp-client.js';
import { Receiver } from '../fixtures/webhook-server.js';
import { Workspace } from '../fixtures/workspace.js';
import { copyFolder, expectNoticed, places, type Reading, truthsOf } from './alterations.js';

let space: Workspace;
let receiver: Receiver;
let runId: string;
let truths: Readonly<Record<string, string>>;
const storage = (name = 'data') => join(space.folder, name);
const restore = () => copyFolder(storage('whole'), storage());

async function serve(tier: string): Promise<void> {
  const records = Array.from({ length: 40 }, (_, n) =>
    JSON.stringify({ id: `p${n}`, index_id: 'made', attributes: { tier } }),
  );
  await space.control('profiles', { index: 'made', records });
}

/** The JSON that a command prints. */
async function printed(...words: readonly string[]) {
  const { code, stdout } = await space.cdsync([words[0] as string, 'job.json', ...words.slice(1), '--json']);
  return { code, stdout };
}

const rows = () => printed('query', 'select id, tier from members order by id');

async function approved() {
  const { code, stdout } = await printed('approve', runId, '--no-push');
  return code === 0 ? rows() : { code, stdout };
}

/** The records that the receiver of the outbox gets. */
async function sent() {
  receiver.reset();
  const { code, stdout } = await printed('push', '--destination', 'down');
  const bodies = receiver.received.map(({ body }) => body).sort();
  return { code, stdout: code === 0 ? bodies.join('\n') : stdout };
}

async function called(tool: string, parameters: Record<string, unknown>) {
  const client = await connectMcp(space, ['mcp', 'job.json', '--show-values']).catch(() => undefined);
  if (client === undefined) return { code: 1, stdout: '' };
  try {
    const { content, isError } = await client.callTool({ name: tool, arguments: parameters });
    return { code: isError === true ? 1 : 0, stdout: JSON.stringify(content) };
  } finally {
    await client.close();
  }
}

const held = String.raw`\.cdsync/runs/[^/]+/streams/members`;
const readings: Readonly<Record<string, Reading>> = {
  'a held result, by approve': { file: new RegExp(`${held}/([^/]+\\.parquet|held\\.json)$`), read: approved },
  'the changes of a held result, by diff': {
    file: new RegExp(`${held}/changes\\.parquet$`),
    read: () => printed('diff', '--held', runId, 'members', '--show-values'),
  },
  'the snapshot of a held result, by diff': {
    file: /parquet\/members\/snapshot\/.*\.parquet$/,
    read: () => printed('diff', '--held', runId, 'members', '--show-values'),
  },
  'the parts of a held result, by approve': { file: new RegExp(`${held}/parts/`), read: approved },
  'an outbox, by a push': { file: /\.cdsync\/deliveries\/down\/streams\/members\/outbox\/.*\.parquet$/, read: sent },
  'rejects of a receiver, by rejects': {
    file: /\.cdsync\/deliveries\/picky\/rejects\/members\.jsonl$/,
    read: () => printed('rejects', '--show-values'),
  },
  'the published file, by rows of mcp': {
    file: /published\/[^/]+\/job\.duckdb$/,
    read: () => called('query', { sql: 'select id, tier from members order by id' }),
  },
  'the published file, by changes of mcp': {
    file: /published\/[^/]+\/job\.duckdb$/,
    read: () => called('changes', { stream: 'members' }),
  },
  'the published file, by its history': {
    file: /published\/[^/]+\/job\.duckdb$/,
    read: () => printed('query', 'select id, tier from members__history order by all'),
  },
};

beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
  receiver = await Receiver.open();
  const url = `http://127.0.0.1:${receiver.port}`;
  const destinations = ['down', 'picky'].map((name) => ({
    ...{ name, connector: 'http', url: `${url}/${name}`, body: { id: '{{ id }}', tier: '{{ tier }}' } },
  }));
  await space.configure('job', [{ name: 'members', source: 'index_profiles', index: 'made' }], {
    job: { destinations, guards: { max_changed: '60%' } },
  });
  receiver.reset(({ path, body }, response) =>
    response.writeHead(path === '/down' ? 403 : body.includes('"p7"') ? 422 : 204).end(),
  );
  await serve('gold');
  await space.cdsync(['run', 'job.json']);
  await serve('silver');
  const { stdout } = await space.cdsync(['run', 'job.json', '--json']);
  const [job] = JSON.parse(stdout).jobs as { run_id: string; streams: { status: string }[] }[];
  expect(job?.streams[0]?.status).toBe('held');
  runId = job?.run_id ?? '';
  await copyFolder(storage(), storage('whole'));
  truths = await truthsOf(readings, restore);
  expect(truths['a held result, by approve']).toContain('silver');
  expect(truths['an outbox, by a push']?.split('\n')).toHaveLength(40);
  expect(truths['rejects of a receiver, by rejects']).toContain('"p7"');
}, 300_000);
afterAll(async () => {
  await receiver.close();
  await space.close();
});

it.each(Object.entries(readings))(
  `%s: a flipped bit and a cut are reported, or change nothing (${places} places)`,
  (name, reading) => expectNoticed(reading, { folder: storage(), restore, truth: truths[name] }),
  600_000,
);
