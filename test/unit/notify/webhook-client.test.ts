import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { WebhookClient } from '../../../src/notify/webhook-client.js';
import { Receiver } from '../../fixtures/webhook-server.js';

let receiver: Receiver;
beforeAll(async () => {
  receiver = await Receiver.open();
});
afterAll(() => receiver.close());

describe('the client of receivers', () => {
  const ofTest = () => ({ url: `http://127.0.0.1:${receiver.port}/hook`, method: 'POST', body: '{}' }) as const;

  it('reaches this machine without the proxy of the environment, as everything else does', async () => {
    receiver.reset();
    vi.stubEnv('HTTP_PROXY', 'http://127.0.0.1:1');
    vi.stubEnv('NO_PROXY', '');
    const http = new WebhookClient();
    try {
      expect((await http.send(ofTest(), AbortSignal.timeout(5000))).status).toBe(204);
      expect(receiver.received).toHaveLength(1);
    } finally {
      vi.unstubAllEnvs();
      await http.close();
    }
  });

  it('takes a success for one, however long its response', async () => {
    receiver.reset((_, response) => response.writeHead(200).end('x'.repeat(200_000)));
    const http = new WebhookClient();
    const { status, body, isCut } = await http.send(ofTest(), AbortSignal.timeout(5000));
    expect([status, body.length, isCut]).toEqual([200, 65_536, true]);
    await http.close();
  });
});
