import { createRequire } from 'node:module';
import type * as Undici from 'undici';

type Parts = Pick<typeof Undici, 'buildConnector' | 'errors' | 'Pool'>;

const load = createRequire(import.meta.url);

/** The package's index loads all of it (fetch, WebSocket, caches, mocks): 0.06 s of CPU time more at each start. */
function parts(): Parts {
  try {
    // As the package's index does.
    Object.assign(load('undici/lib/dispatcher/dispatcher.js').prototype, load('undici/lib/api/index.js'));
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
