import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { indexesPageOperation } from '../../../src/api/profile-api.js';
import { parseConfig } from '../../../src/config/parse.js';
import { type Engine, withEngine } from '../../../src/engine/open-engine.js';
import { startLocalService } from '../../../src/local-service/service.js';
import { openBudget } from '../../../src/rate-limit/open-budget.js';
import { requestControl } from '../../fixtures/control.js';

const limit = 30;
const each = 50;

/** As many requests as an engine can send at once. */
async function sendAll({ client, signal }: Engine) {
  const meter = { requests: 0, retries: 0, throttled: 0, bytes: 0 };
  const send = () => client.send(indexesPageOperation({}), () => undefined, { signal, meter });
  await Promise.all(Array.from({ length: each }, send));
  return meter;
}

it('two engines with one budget together use the full limit of a strict service, and receive no 429', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-budget-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const service = await startLocalService({ profiles: 10, rateLimits: { profile: limit } });
  onTestFinished(() => service.close());
  const config = parseConfig(
    JSON.stringify({
      version: 1,
      service: {
        base_url: service.url,
        tenant_id: service.tenantId,
        auth: { token: '${TOKEN}' },
        rate_limits: { profile: limit },
      },
      storage: './data',
      resources: { memory_mb: 256, threads: 1 },
      jobs: { job: { streams: [{ name: 'indexes', source: 'indexes' }] } },
    }),
    join(folder, 'cdsync.json'),
    { env: { TOKEN: service.token } },
  );
  const budget = openBudget();
  onTestFinished(() => budget.close());
  const options = { signal: new AbortController().signal, notice: () => undefined, budget };
  const meters = await Promise.all([1, 2].map(() => withEngine(config, options, sendAll)));
  expect(meters).toMatchObject(meters.map(() => ({ requests: each, throttled: 0 })));
  const stats = await requestControl(service, 'stats');
  expect(await stats.json()).toMatchObject({ peak_per_second: { [service.tenantId]: { profile: limit } } });
});
