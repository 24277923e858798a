import { z } from 'zod';
import { duration, flag, option, path, secret, whole } from '../../src/sdk/index.js';

const header = secret(/^[\t\x20-\x7e\x80-\xff]+$/, {
  description: 'Value of the header.',
  example: '${WEBHOOK_AUTHORIZATION}',
  allowed: 'text that HTTP allows in a header',
});

export const webhookOptions = {
  url: secret(/^https?:\/\/[^\s/?#]+\S*$/, {
    description:
      'Where to post batches. cdsync shows only its host, because such URLs often have a token in them, and follows no redirects.',
    example: 'https://hooks.example.com/cdp?token=…',
    allowed: 'a URL that begins with https:// or http://',
  }),
  signing_secret: secret(/^\S{16,}$/, {
    description:
      'Signs each request with HMAC-SHA-256, as Standard Webhooks defines it. What follows `whsec_` is Base64; anything else is taken as it is. Default: requests are not signed.',
    example: '${WEBHOOK_SECRET}',
    allowed: 'at least 16 characters without spaces',
  }).optional(),
  headers: option(z.record(z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/), header), {
    description: 'More headers of each request, such as `authorization`. cdsync shows their values nowhere.',
    example: { authorization: '${WEBHOOK_AUTHORIZATION}' },
    allowed: 'a name that HTTP allows for a header',
  }).prefault({}),
  allow_http: flag({
    description:
      'Whether `headers`, and a login or a query in `url`, may go to another machine over http://, where everybody on the way can read them and all records. A loopback address needs no permission.',
    example: true,
  }).prefault(false),
  max_records: whole(1, 1_000, { description: 'The most records in one request.', example: 500 }).prefault(100),
  max_bytes: whole(1_000, 16_000_000, {
    description: 'Length of one request at most. A longer record is refused.',
    example: 1_000_000,
    unit: 'bytes',
  }).prefault(262_144),
  timeout: duration({
    description: 'How long one request may take, from the first byte sent to the last one read.',
    example: '10s',
  }).prefault('30s'),
  ca_file: path({
    description: 'PEM file of the authorities to trust instead of the usual ones.',
    example: './internal-ca.pem',
  }).optional(),
};

export type WebhookShape = typeof webhookOptions;
