import { expect, it } from 'vitest';
import { planPush } from '../../../src/engine/run/plan-push.js';

it('a plan of deliveries for a job without destinations is an error, not silence', async () => {
  const job = { name: 'nightly', destinations: [], streams: [] };
  await expect(planPush({} as never, { job: job as never })).rejects.toMatchObject({
    code: 'destination_not_found',
    message: 'job "nightly" has no destinations',
  });
});
