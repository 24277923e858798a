import { readFile } from 'node:fs/promises';
import { CdsyncError, recordConnector } from '../../src/sdk/index.js';
import { webhookOptions } from './options.js';

/** Most `send` calls under way at the same time, each over its own connection. */
const batchesAtOnce = 4;

async function authorities(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new CdsyncError(`the file of \`ca_file\` cannot be read: ${path}`, {
      code: 'destination_ca_file',
      kind: 'configuration',
      hint: 'it must hold the certificates of the authorities to trust, in PEM',
      cause: error,
    });
  }
}

export default recordConnector({
  name: 'webhook',
  summary: 'Posts changes as JSON to a URL, in signed batches.',
  options: webhookOptions,
  capabilities: { batchRecords: 1000, batchBytes: 16_000_000, batchesAtOnce },

  async open({ options, job, destination }) {
    const [{ Endpoint }, { WebhookDestination }] = await Promise.all([import('./exchange.js'), import('./send.js')]);
    const endpoint = new Endpoint({
      url: options.url.reveal(),
      timeoutMs: options.timeout,
      ca: options.caFile === undefined ? undefined : await authorities(options.caFile),
      connections: batchesAtOnce,
      hasSecretHeaders: Object.keys(options.headers).length > 0,
      allowHttp: options.allowHttp,
    });
    return new WebhookDestination({ endpoint, options, sender: { job, destination } });
  },
});
