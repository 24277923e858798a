// Loaded into cdsync by `node --import`. It divides the cost of a run among its phases, and writes the bill as JSON to the file
// CDSYNC_BENCH_BILL when the program ends. A phase lasts until the first sign of a later one. Reading, scanning and conversion are at
// the same time: DuckDB converts on other threads than the main one, and samples of that separate scanning from reading.
import { subscribe } from 'node:diagnostics_channel';
import { readFileSync, writeFileSync } from 'node:fs';
import fsp from 'node:fs/promises';
import { Session } from 'node:inspector';
import { syncBuiltinESMExports } from 'node:module';
import duckdb from '@duckdb/node-api';

const phases = ['start', 'reading', 'unify', 'changes', 'store', 'publish', 'report'];
/** SQL that is the first of a phase. */
const signs = [
  ['unify', /^CREATE OR REPLACE TEMP TABLE "work_keys_/],
  ['changes', /^CREATE OR REPLACE TEMP TABLE "work_before_|^COPY .*\/\.changes\.parquet/s],
  ['store', /^SET preserve_insertion_order = false/],
];
/** Functions that look at each byte of a page. Functions that they call count as theirs. */
const scanners = new Set(['scan', 'cutPage', 'cutPageExactly']);

const ticksPerSecond = 100;

/** CPU seconds of the main thread, and of all threads. */
function used() {
  const stat = readFileSync(`/proc/self/task/${process.pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const { user, system } = process.cpuUsage();
  return { main: (Number(fields[11]) + Number(fields[12])) / ticksPerSecond, all: (user + system) / 1e6 };
}

const megabytes = () => process.memoryUsage.rss() / 2 ** 20;

const bill = [];
let current = { phase: 'start', at: 0, main: 0, all: 0, peakMb: 0 };
const samples = new Session();
let scanningShare = 0;

function remember() {
  current.peakMb = Math.max(current.peakMb, megabytes());
}

setInterval(remember, 20).unref();

/** The share of scanning in the samples in which the main thread worked. */
function shareOfScanning({ nodes, samples: seen = [] }) {
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id])));
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const scans = (id) =>
    id !== undefined && (scanners.has(byId.get(id).callFrame.functionName) || scans(parents.get(id)));
  const working = seen.filter((id) => byId.get(id).callFrame.functionName !== '(idle)');
  return working.filter(scans).length / Math.max(1, working.length);
}

function begin(phase) {
  if (phases.indexOf(phase) <= phases.indexOf(current.phase)) return;
  remember();
  const [wall, now] = [performance.now() / 1000, used()];
  const { at, main, all, peakMb } = current;
  const spent = { wall: wall - at, cpu: now.all - all, peakMb };
  if (current.phase === 'reading') {
    samples.post('Profiler.stop', (_, { profile }) => {
      scanningShare = shareOfScanning(profile);
    });
    const scanning = (now.main - main) * scanningShare;
    bill.push({ phase: 'reading', ...spent, cpu: now.main - main - scanning });
    bill.push({ phase: 'scanning', ...spent, cpu: scanning });
    bill.push({ phase: 'conversion', ...spent, cpu: spent.cpu - (now.main - main) });
  } else bill.push({ phase: current.phase, ...spent });
  current = { phase, at: wall, ...now, peakMb: 0 };
  if (phase !== 'reading') return;
  samples.connect();
  samples.post('Profiler.enable');
  samples.post('Profiler.setSamplingInterval', { interval: 2000 });
  samples.post('Profiler.start');
}

subscribe('undici:request:create', () => begin('reading'));
const connection = duckdb.DuckDBConnection.prototype;
const { run } = connection;
connection.run = function watched(sql, ...rest) {
  for (const [phase, sign] of signs) if (sign.test(sql)) begin(phase);
  const done = run.call(this, sql, ...rest);
  if (current.phase === 'store' && sql === 'COMMIT') return done.finally(() => begin('publish'));
  return done;
};
const { readdir } = fsp;
fsp.readdir = (path, ...rest) => {
  if (String(path).endsWith('/figures') && current.phase !== 'start') begin('report');
  return readdir(path, ...rest);
};
syncBuiltinESMExports();

process.on('exit', () => {
  phases.push('end');
  begin('end');
  writeFileSync(process.env.CDSYNC_BENCH_BILL, JSON.stringify(bill));
});
