// Loaded before cdsync: kills the process at a message to a server, or at a statement of DuckDB, before or after it was sent.
import { Socket } from 'node:net';
import { DuckDBConnection } from '@duckdb/node-api';

const [what, count, when] = (process.env.CDSYNC_KILLED_AT ?? '').split(':');
let left = Number(count);

const die = () => process.kill(process.pid, 'SIGKILL');

function striking(type, name) {
  const own = type.prototype[name];
  type.prototype[name] = function struck(...args) {
    left -= 1;
    if (left === 0 && when === 'before') die();
    const result = own.apply(this, args);
    if (left === 0) {
      if (result instanceof Promise) return result.finally(die);
      die();
    }
    return result;
  };
}

if (what === 'message') striking(Socket, 'write');
else for (const name of ['run', 'runAndReadAll']) striking(DuckDBConnection, name);
