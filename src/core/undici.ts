import { createRequire } from 'node:module';
import type * as Undici from 'undici';

type Parts = Pick<typeof Undici, 'buildConnector' | 'errors' | 'Pool'>;

const load = createRequire(import.meta.url);

/** HTTP/2, which no connection of cdsync speaks, is a tenth of the client's time to load: it is loaded when a client calls it. */
function loadLate(path: string): void {
  const file = load.resolve(path);
  const use = (...args: unknown[]) => {
    delete load.cache[file];
    return load(file)(...args);
  };
  load.cache[file] ??= { exports: use } as NodeJS.Module;
}

/** The package's index loads all of it (fetch, WebSocket, caches, mocks): 0.06 s of CPU time more at each start. */
function parts(): Parts {
  try {
    loadLate('undici/lib/dispatcher/client-h2.js');
    return {
      buildConnector: load('undici/lib/core/connect.js'),
      errors: load('undici/lib/core/errors.js'),
      Pool: load('undici/lib/dispatcher/pool.js'),
    };
  } catch {
    // Another version, by `overrides`, may keep its files in other folders.
    return load('undici');
  }
}

/** The parts of undici that cdsync uses. */
export const { buildConnector, errors, Pool } = parts();

export type Pool = Undici.Pool;
