// Loaded into the program by `node --import`. It sees every step by which a run writes to its storage folder, and records
// them all or strikes at one. CDSYNC_TEST_STRIKE is a JSON document: see Strike in ../strike.ts.
import { appendFileSync } from 'node:fs';
import fsp from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { relative } from 'node:path';
import duckdb from '@duckdb/node-api';

const { storage, report, record, at, when, action, delayMs = 0 } = JSON.parse(process.env.CDSYNC_TEST_STRIKE);
const seen = new Map();
let lasting = false;

/** Names of runs and of temporary files differ from run to run; the steps of two runs are the same without them. */
function nameless(text) {
  return text
    .replaceAll(`${storage}/`, '')
    .replace(/\d{8}T\d{6}Z-[0-9a-f]{6}/g, 'RUN')
    .replace(/\.[0-9a-f]{8}\.tmp/g, '.tmp')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replace(/\b[0-9a-f]{16,}\b|[0-9a-f]{8}-[0-9a-f-]{27}/g, 'HEX')
    .replace(/\s+/g, ' ')
    .slice(0, 150);
}

function numbered(label) {
  const count = (seen.get(label) ?? 0) + 1;
  seen.set(label, count);
  return `${label} #${count}`;
}

function say(step) {
  appendFileSync(report, `${step}\n`);
}

function errorOf(code, label) {
  const meaning = {
    ENOSPC: 'no space left on device',
    EIO: 'i/o error',
    EACCES: 'permission denied',
    EMFILE: 'too many open files',
  };
  const syscall = label.split(' ')[0];
  return Object.assign(new Error(`${code}: ${meaning[code]}, ${syscall}`), { code, syscall });
}

function shiftClock(byMs) {
  const Real = Date;
  globalThis.Date = class extends Real {
    constructor(...args) {
      if (args.length === 0) super(Real.now() + byMs);
      else super(...args);
    }
    static now() {
      return Real.now() + byMs;
    }
  };
}

const actions = {
  kill: () => process.kill(process.pid, 'SIGKILL'),
  pause: () => process.kill(process.pid, 'SIGSTOP'),
};

/** Two signals within half a second count as one press of Ctrl-C. */
const secondMs = 550;

function send(signal, isTwice) {
  process.kill(process.pid, signal);
  if (isTwice) setTimeout(() => process.kill(process.pid, signal), secondMs);
}

function act(step) {
  say(step);
  const [kind, name, times] = action.split(' ');
  if (kind === 'clock') shiftClock(Number(name));
  else if (kind === 'signal') send(name, times === 'twice');
  else actions[action]();
}

/** Does a step. A strike with an error replaces `work`; all other strikes come before, during or after it. */
function step(label, work, mayFail) {
  const name = numbered(nameless(label));
  if (record) say(name);
  if (lasting && mayFail) return Promise.reject(errorOf(action.split(' ')[1], label));
  if (name !== at) return work();
  if (action.startsWith('error ')) {
    if (!mayFail) return work();
    say(name);
    lasting = action.endsWith(' lasting');
    return Promise.reject(errorOf(action.split(' ')[1], label));
  }
  if (when === 'before') act(name);
  const done = work();
  if (when === 'in') setTimeout(() => act(name), delayMs);
  if (when !== 'after') return done;
  return done.then((result) => {
    act(name);
    return result;
  });
}

const isOurs = (path) => typeof path === 'string' && (path === storage || path.startsWith(`${storage}/`));
const shown = (path) => relative(storage, path);

function watch(owner, name, labelOf) {
  const real = owner[name];
  owner[name] = function watched(...args) {
    const label = labelOf.call(this, ...args);
    return label === undefined ? real.apply(this, args) : step(label, () => real.apply(this, args), true);
  };
}

const onPath = (name) => (path) => (isOurs(path) ? `${name} ${shown(path)}` : undefined);
for (const name of ['mkdir', 'rm', 'chmod', 'unlink', 'writeFile']) watch(fsp, name, onPath(name));
const onTarget = (name) => (_, path) => (isOurs(path) ? `${name} ${shown(path)}` : undefined);
for (const name of ['rename', 'copyFile', 'symlink']) watch(fsp, name, onTarget(name));

const paths = new WeakMap();
const { open } = fsp;
fsp.open = async (path, flags, mode) => {
  const writes = flags !== undefined && flags !== 'r';
  const work = () => open(path, flags, mode);
  const handle = await (isOurs(path) && writes && flags !== 'r+' ? step(`open ${shown(path)}`, work, true) : work());
  if (isOurs(path)) paths.set(handle, shown(path));
  return handle;
};
const some = await open('/dev/null', 'r');
const ofHandle = (name) =>
  function labelOf() {
    const path = paths.get(this);
    return path === undefined ? undefined : `${name} ${path}`;
  };
for (const name of ['write', 'writeFile', 'appendFile', 'sync', 'datasync', 'truncate'])
  watch(Object.getPrototypeOf(some), name, ofHandle(name));
await some.close();
syncBuiltinESMExports();

/** DuckDB does its own writing: its steps are these statements. */
const writes =
  /^\s*(COPY|BEGIN|COMMIT|ATTACH|DETACH|INSERT|CREATE (OR REPLACE )?(TABLE|VIEW|MACRO|SCHEMA)|DELETE|ALTER|DROP|UPDATE)\b/i;
const connection = duckdb.DuckDBConnection.prototype;
for (const name of ['run', 'runAndReadAll']) {
  const real = connection[name];
  connection[name] = function watched(sql, ...rest) {
    const work = () => real.call(this, sql, ...rest);
    return writes.test(sql) ? step(`sql ${sql}`, work, false) : work();
  };
}
