import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { writeConfig } from '../configs.js';
import { measure, type ServedService, type Usage } from '../process.js';
import { runCdsync, runPlain } from '../programs.js';
import { writeAirbyte } from './airbyte.js';
import { makePython } from './python.js';

/** The same list in pages of the same size, for all. */
export interface Work {
  readonly service: ServedService;
  readonly index: string;
  readonly pageSize: number;
}

/** One program at its work in one folder. Its first run begins with nothing; a later run finds the files of the run before. */
export interface Session {
  run(): Promise<Usage>;
  /** The number of distinct ids that the program returned. */
  count(): Promise<number>;
}

export interface Program {
  readonly name: string;
  /** The later runs to measure. `same`: a later run costs the same as the first. `unknowing`: it reads and writes everything, whatever has changed. */
  readonly laterRuns: 'same' | 'unknowing' | 'all';
  begin(folder: string, work: Work): Promise<Session>;
}

/** A program that cannot run here. */
export interface Missing {
  readonly name: string;
  readonly missing: string;
}

/** The engine of Python is that of cdsync: both write the same DuckDB file format. */
const versions = { dlt: '1.31.0', duckdb: '1.5.5', pyarrow: '26.0.1', 'airbyte-cdk': '7.39.0' };
const pinned = (name: keyof typeof versions) => `${name}==${versions[name]}`;
const quietly = { RUNTIME__DLTHUB_TELEMETRY: 'false', DO_NOT_TRACK: '1', NO_PROXY: '127.0.0.1' };

async function countIn(database: string, sql: string): Promise<number> {
  const instance = await DuckDBInstance.create(database, database === ':memory:' ? {} : { access_mode: 'READ_ONLY' });
  const connection = await instance.connect();
  try {
    const [[count] = []] = (await connection.runAndReadAll(sql)).getRows();
    return Number(count);
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

const distinctIds = 'SELECT count(DISTINCT id) FROM';

async function ended(name: string, running: Promise<Usage>): Promise<Usage> {
  const usage = await running;
  if (usage.code !== 0)
    throw new Error(`${name} ended with ${usage.code}: ${(usage.stderr || usage.stdout).slice(-4000)}`);
  return usage;
}

function cdsyncProgram(cdsync: string): Program {
  return {
    name: 'cdsync',
    laterRuns: 'all',
    begin: async (folder, { service, pageSize }) => {
      const config = await writeConfig(folder, 'cdsync', { page_size: pageSize });
      const published = join(folder, 'cdsync', 'bench', 'bench.duckdb');
      return {
        run: () => runCdsync(cdsync, config, service),
        count: () => countIn(published, `${distinctIds} members`),
      };
    },
  };
}

const plainProgram: Program = {
  name: 'plain program (fetch, JSON.parse, row appender)',
  laterRuns: 'same',
  begin: async (folder, { service, pageSize }) => {
    const database = join(folder, 'plain.duckdb');
    return {
      run: () => runPlain(database, service, pageSize),
      count: () => countIn(database, `${distinctIds} members`),
    };
  },
};

function dltProgram(bin: string): Program {
  return {
    name: `dlt ${versions.dlt} (REST source, DuckDB, Parquet load files, merge)`,
    laterRuns: 'unknowing',
    begin: async (folder, { service, index, pageSize }) => {
      const database = join(folder, 'dlt.duckdb');
      const program = join(import.meta.dirname, 'dlt_pipeline.py');
      const own = join(folder, 'dlt');
      await mkdir(own);
      const words = [program, service.url, index, service.tenant, String(pageSize), database, own];
      const env = { ...quietly, PEERS_TOKEN: service.token };
      return {
        run: () => ended('dlt', measure(join(bin, 'python'), words, { env })),
        count: () => countIn(database, `${distinctIds} peers.members`),
      };
    },
  };
}

function airbyteProgram(bin: string): Program {
  const version = versions['airbyte-cdk'];
  return {
    name: `Airbyte CDK ${version} (reads to JSON lines only)`,
    laterRuns: 'unknowing',
    begin: async (folder, { service, index, pageSize }) => {
      const words = await writeAirbyte(folder, service, { index, pageSize, version });
      const output = join(folder, 'airbyte.jsonl');
      const columns = "{type: 'VARCHAR', record: 'STRUCT(data STRUCT(id VARCHAR))'}";
      const lines = `read_json('${output}', format = 'newline_delimited', columns = ${columns})`;
      const ids = `(SELECT record.data.id AS id FROM ${lines} WHERE type = 'RECORD')`;
      return {
        run: () => {
          const command = join(bin, 'source-declarative-manifest');
          return ended("Airbyte's CDK", measure(command, words, { env: quietly, output }));
        },
        count: () => countIn(':memory:', `${distinctIds} ${ids}`),
      };
    },
  };
}

/** All programs of the comparison. Those in Python get an environment of their own in `folder`. */
export async function findPrograms(cdsync: string, folder: string): Promise<(Program | Missing)[]> {
  const [dlt, airbyte] = [
    await makePython(join(folder, 'python-dlt'), (['dlt', 'duckdb', 'pyarrow'] as const).map(pinned)),
    await makePython(join(folder, 'python-airbyte'), [pinned('airbyte-cdk')]),
  ];
  return [
    cdsyncProgram(cdsync),
    plainProgram,
    'bin' in dlt ? dltProgram(dlt.bin) : { name: 'dlt', ...dlt },
    'bin' in airbyte ? airbyteProgram(airbyte.bin) : { name: "Airbyte's CDK", ...airbyte },
  ];
}
