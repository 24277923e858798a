import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { Config, StreamConfig } from '../../../src/config/config.js';
import { parseConfig } from '../../../src/config/parse.js';
import { Salts } from '../../../src/engine/column-rules.js';
import { newProgress } from '../../../src/engine/progress.js';
import { type OpenedStream, openStream } from '../../../src/engine/run/read-stream.js';
import type { RunContext } from '../../../src/engine/run-context.js';
import type { Converter } from '../../../src/extract/convert/converter.js';
import { Database, type Session } from '../../../src/store/duckdb.js';
import { JobLayout } from '../../../src/store/layout.js';
import { JumpingClock } from '../client/clocks.js';
import { scriptedService, serviceOptions, testClient } from '../client/scripted-service.js';

let database: Database;
let session: Session;
beforeAll(async () => {
  database = await Database.open({ memoryMb: 256, threads: 1 });
  session = await database.connect();
});
afterAll(() => {
  session.close();
  database.close();
});

/** A configuration with these streams, as JSON, which YAML is. */
function configOf(streams: readonly object[]): Config {
  const service = { base_url: 'https://cds.example', tenant_id: 'acme', auth: { token_file: './token' } };
  const named = streams.map((stream, index) => ({ name: `s${index}`, ...stream }));
  const text = JSON.stringify({ service, jobs: { job: { streams: named } } });
  return parseConfig(text, '/srv/cdsync.yaml', { env: {} });
}

/** A stream as a run opens it, at a service that has one index and answers everything else with an empty page. */
async function opened(config: Config, stream: StreamConfig): Promise<OpenedStream> {
  const service = await scriptedService((response, { url }) => {
    const data = url.pathname.endsWith('/indexes') ? [{ id: 'idx-1', name: 'members' }] : [];
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ data, next_token: null }));
  });
  const { client, abort } = testClient(serviceOptions(service.baseUrl));
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
    layout: new JobLayout(join(tmpdir(), 'cdsync-nothing'), job.name),
    progress: newProgress(job.name, []),
    only: undefined,
    full: true,
    range: undefined,
    accept: false,
    rekey: false,
  };
  onTestFinished(() => client.close());
  const meter = { requests: 0, retries: 0, throttled: 0, bytes: 0 };
  return openStream(context, { config: stream, meter, previous: undefined, session });
}

interface Recorded {
  readonly stream: object;
  readonly definition: Readonly<Record<string, string>>;
  readonly fingerprint: string;
}

/** What stores and unfinished readings of version 0.1.0 hold. */
const recorded: readonly Recorded[] = JSON.parse(
  readFileSync(join(import.meta.dirname, 'definitions-0.1.0.json'), 'utf8'),
);

describe('The definition of a stream', () => {
  it.each(recorded)('is for $stream what stores of version 0.1.0 hold', async ({ stream, definition, fingerprint }) => {
    const config = configOf([stream]);
    const found = await opened(config, config.jobs[0]?.streams[0] as StreamConfig);
    expect({ definition: found.definition, fingerprint: found.fingerprint }).toEqual({ definition, fingerprint });
  });
});
