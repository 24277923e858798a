import { readFile } from 'node:fs/promises';
import { CdsyncError, type OptionValues, recordConnector, unavailable } from '../../src/sdk/index.js';
import { webhookOptions } from './options.js';

/** Most `send` calls under way at the same time, each over its own connection. */
const batchesAtOnce = 4;

async function authorities(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new CdsyncError(`the file of \`ca_file\` cannot be read: ${path}`, {
      code: 'destination_ca_file',
      hint: 'it must hold the certificates of the authorities to trust, in PEM',
      cause: error,
    });
  }
}

async function openEndpoint(options: OptionValues<typeof webhookOptions>) {
  const { Endpoint } = await import('./exchange.js');
  const ca = options.caFile === undefined ? undefined : await authorities(options.caFile);
  return new Endpoint(options, { connections: batchesAtOnce, ca });
}

export default recordConnector({
  name: 'webhook',
  summary: 'Posts changes as JSON to a URL, in signed batches.',
  erasure:
    'it gets a delete with the key alone, unless its mode is upsert; records that it got before are its own to erase',
  options: webhookOptions,
  capabilities: { batchRecords: 1000, batchBytes: 16_000_000, batchesAtOnce },

  async check({ options, signal }) {
    const endpoint = await openEndpoint(options);
    try {
      const status = await endpoint.knock(signal);
      return {
        reached: `${endpoint.host}, which responds to OPTIONS with ${status}`,
        lacks: [],
        untried: 'whether it takes changes shows the first delivery',
      };
    } catch (error) {
      throw error instanceof CdsyncError ? error : unavailable((error as Error).message);
    } finally {
      await endpoint.close();
    }
  },

  async open({ options, job, destination }) {
    const { WebhookDestination } = await import('./send.js');
    return new WebhookDestination(await openEndpoint(options), options, { job, destination });
  },
});
