// The part of undici that cdsync uses. The package's index loads all of it (fetch, WebSocket, caches, mocks): 20 ms of CPU time at each start.

import api from 'undici/lib/api/index.js';
import Dispatcher from 'undici/lib/dispatcher/dispatcher.js';

export { default as buildConnector } from 'undici/lib/core/connect.js';
export { default as errors } from 'undici/lib/core/errors.js';
export { default as EnvHttpProxyAgent } from 'undici/lib/dispatcher/env-http-proxy-agent.js';
export { default as Pool } from 'undici/lib/dispatcher/pool.js';

// As the package's index does.
Object.assign(Dispatcher.prototype, api);
