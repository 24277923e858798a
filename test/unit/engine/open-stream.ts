import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Config, StreamConfig } from '../../../src/config/config.js';
import { parseConfig } from '../../../src/config/parse.js';
import { Salts } from '../../../src/engine/column-rules.js';
import { newProgress } from '../../../src/engine/progress.js';
import { type OpenedStream, type OpenTask, openStream } from '../../../src/engine/run/open-stream.js';
import type { RunContext } from '../../../src/engine/run-context.js';
import type { Converter } from '../../../src/extract/convert/converter.js';
import { CacheMemory } from '../../../src/record-cache/cache-memory.js';
import type { SourceDeclaration } from '../../../src/sources/declaration.js';
import type { Database, Session } from '../../../src/storage/duckdb.js';
import { JobLayout } from '../../../src/storage/layout.js';
import { JumpingClock } from '../api/clocks.js';
import { scriptedService, serviceOptions, testClient } from '../api/scripted-service.js';

/** A configuration whose job has this stream, as JSON (which is YAML). @param sources replaces the usual sources */
export function configOf(
  stream: object,
  sources?: readonly SourceDeclaration[],
): { config: Config; stream: StreamConfig } {
  const service = { base_url: 'https://cds.example', tenant_id: 'acme', auth: { token_file: './token' } };
  const text = JSON.stringify({ service, jobs: { job: { streams: [{ name: 's0', ...stream }] } } });
  const config = parseConfig(text, '/srv/cdsync.yaml', { env: {}, ...(sources && { sources }) });
  return { config, stream: config.jobs[0]?.streams[0] as StreamConfig };
}

/** Opens a stream as a run does, at a service that has one index and returns an empty page for everything else. */
export async function opened(
  { config, stream }: ReturnType<typeof configOf>,
  { database, session, previous }: { database: Database; session: Session; previous?: OpenTask['previous'] },
): Promise<OpenedStream> {
  const service = await scriptedService((response, { url }) => {
    const data = url.pathname.endsWith('/indexes') ? [{ id: 'idx-1', name: 'members' }] : [];
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ data, next_token: null }));
  });
  const { client, abort } = testClient(serviceOptions(service.baseUrl));
  onTestFinished(() => client.close());
  const [job] = config.jobs;
  if (job === undefined) throw new Error('there is no job');
  const context: RunContext = {
    config,
    job,
    client,
    database,
    converter: undefined as unknown as Converter,
    clock: new JumpingClock(),
    signal: abort.signal,
    notice: () => {},
    salts: new Salts(),
    caches: new CacheMemory(0),
    layout: new JobLayout(join(tmpdir(), 'cdsync-nothing'), job.name),
    progress: newProgress(job.name, []),
    only: undefined,
    full: true,
    range: undefined,
    accept: false,
    rekey: false,
  };
  const meter = { requests: 0, retries: 0, throttled: 0, bytes: 0 };
  return openStream(context, { config: stream, meter, previous, session });
}
