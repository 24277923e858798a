import { copyFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import http from '../../../connectors/http/index.js';
import type { OutgoingRecord } from '../../../src/sdk/index.js';
import { type Driven, deliver, openRecords, someRecords } from '../../fixtures/record-driver.js';
import { type Received, Receiver } from '../../fixtures/webhook-server.js';
import { Workspace } from '../../fixtures/workspace.js';

const file = join(import.meta.dirname, '..', '..', '..', 'docs', 'recipes', 'http.yaml');

let receiver: Receiver;
let driven: Driven | undefined;
const recipes = new Map<string, Record<string, unknown>>();
beforeAll(async () => {
  receiver = await Receiver.open();
  const { jobs } = parse(await readFile(file, 'utf8'));
  for (const recipe of jobs.crm.destinations) recipes.set(recipe.name, recipe);
});
afterAll(() => receiver.close());
beforeEach(() => receiver.reset());
afterEach(async () => {
  await driven?.close();
  driven = undefined;
});

/** A recipe, sent to the receiver of this test in place of the real one, with a secret for each variable. */
function here(value: unknown): unknown {
  if (typeof value === 'string') {
    const text = value
      .replace(/^\$\{\w+_URL\}$/, 'https://hooks.example.com/hook/1')
      .replace(/\$\{(\w+)\}/g, 'secret-of-$1');
    return text.replace(/^https:\/\/[^/]+/, `http://127.0.0.1:${receiver.port}`);
  }
  if (Array.isArray(value)) return value.map(here);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, here(member)]));
}

/** Scalars as the reader of configurations gives them to options that are texts. */
function texts(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(texts);
  if (value === null || typeof value !== 'object') return String(value);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, texts(member)]));
}

const people = someRecords(3, (n) => ({
  email: `Person${n}@Example.com`,
  phone: `202555010${n}`,
  first_name: `F${n}`,
  last_name: n === 1 ? null : `L${n}`,
  tier: 'gold',
  points: 10 + n,
  country: 'US',
}));
const leaver: OutgoingRecord = { ...(people[2] as OutgoingRecord), id: 'f'.repeat(32), op: 'delete' };

/** A receiver's response by its documentation. */
type DocumentedResponse = { readonly status: number; readonly body: unknown };

interface Documented {
  /** The first request for new rows: method, path, body. */
  readonly request: { readonly method: string; readonly path: string; readonly body: unknown };
  /** A response that takes all but the record `k-1`, or all. */
  readonly reply: (received: Received) => DocumentedResponse;
  readonly refused: readonly string[];
  /** The request for a row that has left, if the recipe has one. */
  readonly left?: { readonly method: string; readonly path: string; readonly body: unknown };
}

const only = (status: number, body: unknown) => () => ({ status, body });
const first = { id: 'k-0', email: 'Person0@Example.com' };

const documented: Record<string, Documented> = {
  hubspot: {
    request: {
      method: 'POST',
      path: '/crm/v3/objects/contacts/batch/upsert',
      body: {
        inputs: people.map((_, n) => ({
          id: `person${n}@example.com`,
          idProperty: 'email',
          objectWriteTraceId: `k-${n}`,
          properties: { firstname: `F${n}`, lastname: n === 1 ? null : `L${n}`, tier: 'gold' },
        })),
      },
    },
    reply: only(207, {
      status: 'COMPLETE',
      results: [{ id: '1' }, { id: '2' }],
      numErrors: 1,
      errors: [
        { status: 'error', category: 'VALIDATION_ERROR', message: 'wrong', context: { objectWriteTraceId: ['k-1'] } },
      ],
    }),
    refused: ['k-1'],
  },
  braze: {
    request: {
      method: 'POST',
      path: '/users/track',
      body: {
        attributes: people.map((_, n) => ({
          external_id: `k-${n}`,
          email: `Person${n}@Example.com`,
          tier: 'gold',
          points: 10 + n,
        })),
      },
    },
    reply: only(201, {
      message: 'success',
      attributes_processed: 2,
      errors: [{ type: 'invalid', input_array: 'attributes', index: 1 }],
    }),
    refused: ['k-1'],
    left: { method: 'POST', path: '/users/delete', body: { external_ids: ['k-2'] } },
  },
  klaviyo: {
    request: {
      method: 'POST',
      path: '/api/profile-import',
      body: {
        data: {
          type: 'profile',
          attributes: {
            email: first.email,
            external_id: 'k-0',
            first_name: 'F0',
            properties: { tier: 'gold', points: 10 },
          },
        },
      },
    },
    reply: ({ body }) =>
      body.includes('"k-1"')
        ? { status: 400, body: { errors: [{ code: 'invalid', detail: 'not a valid address' }] } }
        : { status: 201, body: { data: { type: 'profile' } } },
    refused: ['k-1'],
  },
  iterable: {
    request: {
      method: 'POST',
      path: '/api/users/bulkUpdate',
      body: {
        users: people.map((_, n) => ({
          email: `Person${n}@Example.com`,
          dataFields: { tier: 'gold', points: 10 + n },
        })),
      },
    },
    reply: only(200, {
      successCount: 2,
      failCount: 1,
      failedUpdates: { invalidEmails: ['person1@example.com'], notFoundEmails: [] },
    }),
    refused: ['k-1'],
  },
  segment: {
    request: {
      method: 'POST',
      path: '/v1/batch',
      body: {
        batch: people.map(({ id }, n) => ({
          type: 'identify',
          userId: `k-${n}`,
          messageId: id,
          traits: { email: `Person${n}@Example.com`, tier: 'gold' },
        })),
      },
    },
    reply: only(200, { success: true }),
    refused: [],
  },
  audience: {
    request: {
      method: 'POST',
      path: '/v23.0/120200000000000000/users',
      body: {
        payload: {
          schema: ['EMAIL', 'PHONE'],
          data: people.map(() => [expect.stringMatching(/^[0-9a-f]{64}$/), expect.stringMatching(/^[0-9a-f]{64}$/)]),
        },
      },
    },
    reply: only(200, { audience_id: '1', num_received: 3, num_invalid_entries: 1 }),
    refused: [],
    left: {
      method: 'DELETE',
      path: '/v23.0/120200000000000000/users',
      body: { payload: { schema: ['EMAIL', 'PHONE'], data: [[expect.any(String), expect.any(String)]] } },
    },
  },
  mailchimp: {
    request: {
      method: 'PUT',
      path: expect.stringMatching(/^\/3\.0\/lists\/a1b2c3d4e5\/members\/[0-9a-f]{32}$/) as unknown as string,
      body: { email_address: first.email, status_if_new: 'subscribed', merge_fields: { FNAME: 'F0', TIER: 'gold' } },
    },
    reply: ({ body }) =>
      body.includes('Person1')
        ? { status: 400, body: { title: 'Invalid Resource', detail: 'looks fake' } }
        : { status: 200, body: {} },
    refused: ['k-1'],
    left: {
      method: 'DELETE',
      path: expect.stringMatching(/members\/[0-9a-f]{32}$/) as unknown as string,
      body: undefined,
    },
  },
  salesforce: {
    request: {
      method: 'PATCH',
      path: '/services/data/v64.0/composite/sobjects/Contact/External_Id__c',
      body: {
        allOrNone: false,
        records: people.map((_, n) => ({
          attributes: { type: 'Contact' },
          External_Id__c: `k-${n}`,
          Email: `Person${n}@Example.com`,
          LastName: n === 1 ? '-' : `L${n}`,
        })),
      },
    },
    reply: ({ path }) =>
      path.endsWith('/token')
        ? { status: 200, body: { access_token: 'token-1', token_type: 'Bearer' } }
        : {
            status: 200,
            body: [
              { id: 'a', success: true, errors: [] },
              { success: false, errors: [{ statusCode: 'REQUIRED_FIELD_MISSING', message: 'missing' }] },
              { id: 'c', success: true, errors: [] },
            ],
          },
    refused: ['k-1'],
  },
  airtable: {
    request: {
      method: 'PATCH',
      path: '/v0/appAAAAAAAAAAAAAA/Members',
      body: {
        performUpsert: { fieldsToMergeOn: ['Id'] },
        records: people.map((_, n) => ({ fields: { Id: `k-${n}`, Tier: 'gold', Points: 10 + n } })),
      },
    },
    reply: ({ body }) =>
      body.includes('"k-1"')
        ? { status: 422, body: { error: { type: 'INVALID_VALUE_FOR_COLUMN', message: 'wrong' } } }
        : { status: 200, body: { records: [] } },
    refused: ['k-1'],
  },
  customerio: {
    request: { method: 'PUT', path: '/api/v1/customers/k-0', body: { email: first.email, tier: 'gold', points: 10 } },
    reply: ({ path }) =>
      path.endsWith('/k-1') ? { status: 400, body: { meta: { error: 'wrong' } } } : { status: 200, body: {} },
    refused: ['k-1'],
    left: { method: 'DELETE', path: '/api/v1/customers/k-2', body: undefined },
  },
  new_vips: {
    request: { method: 'POST', path: '/hook/1', body: { text: 'k-0 is new among the VIPs' } },
    reply: only(200, 'ok'),
    refused: [],
  },
  search: {
    request: {
      method: 'POST',
      path: '/members/_bulk',
      body: people.flatMap((_, n) => [{ index: { _id: `k-${n}` } }, { tier: 'gold', country: 'US' }]),
    },
    reply: ({ body }) => ({
      status: 200,
      body: {
        errors: true,
        items: body
          .split('\n')
          .filter((line) => line.includes('_id'))
          .map((line) => {
            const [[op, { _id }] = ['', { _id: '' }]] = Object.entries(
              JSON.parse(line) as Record<string, { _id: string }>,
            );
            return { [op]: _id === 'k-1' ? { _id, status: 400, error: { reason: 'wrong' } } : { _id, status: 201 } };
          }),
      },
    }),
    refused: ['k-1'],
    left: { method: 'POST', path: '/members/_bulk', body: [{ delete: { _id: 'k-2' } }] },
  },
  couch: {
    request: {
      method: 'POST',
      path: '/changes/_bulk_docs',
      body: {
        docs: people.map(({ id }, n) => ({ _id: id, _rev: `1-${id}`, member: `k-${n}`, op: 'insert', tier: 'gold' })),
        new_edits: false,
      },
    },
    // With new_edits: false, CouchDB lists only refused documents.
    reply: only(201, [{ id: people[1]?.id, error: 'forbidden', reason: 'refused by a validation' }]),
    refused: ['k-1'],
  },
  flow: {
    request: { method: 'POST', path: '/hook/1', body: { op: 'insert', id: 'k-0', email: first.email, tier: 'gold' } },
    reply: only(200, { status: 'success' }),
    refused: [],
    left: {
      method: 'POST',
      path: '/hook/1',
      body: { op: 'delete', id: 'k-2', email: 'Person2@Example.com', tier: 'gold' },
    },
  },
};

function bodyOf({ body, headers }: Received): unknown {
  if (body === '') return undefined;
  if (!(headers['content-type'] ?? '').includes('ndjson')) return JSON.parse(body);
  return body
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

const shown = (received: Received | undefined) =>
  received && { method: received.method, path: received.path, body: bodyOf(received) };

async function open(name: string): Promise<Driven['destination']> {
  const { name: _, connector, streams: __, mode: ___, ...options } = here(recipes.get(name)) as Record<string, unknown>;
  expect(connector).toBe('http');
  if (options.response !== undefined) options.response = texts(options.response);
  driven = await openRecords(http, options);
  return driven.destination;
}

const answering = ({ reply }: Documented) =>
  receiver.reset((received, response) => {
    const { status, body } = reply(received);
    const isText = typeof body === 'string';
    response
      .writeHead(status, { 'content-type': isText ? 'text/plain' : 'application/json' })
      .end(isText ? body : JSON.stringify(body));
  });

it('are accepted by the reader of configurations, all in one file', async () => {
  const space = await Workspace.open({ profiles: 10 });
  await copyFile(file, join(space.folder, 'recipes.yaml'));
  const { code, stderr } = await space.cdsync(['check', 'recipes.yaml', '--offline']);
  await space.close();
  expect([code, stderr]).toEqual([0, expect.any(String)]);
});

describe('a recipe', () => {
  it('has its documentation here, and each here is a recipe', () => {
    expect([...recipes.keys()].sort()).toEqual(Object.keys(documented).sort());
  });

  it.each(Object.entries(documented))(
    '%s sends the documented request, and reads the documented response',
    async (name, documented) => {
      answering(documented);
      const results = await deliver(await open(name), people, 500);
      const data = receiver.received.filter(({ path }) => !path.endsWith('/token'));
      expect(shown(data.find(({ body }) => body.includes('k-0')) ?? data[0])).toEqual(documented.request);
      const refused = people.filter(({ id }) => results.get(id)?.type === 'refused').map(({ key }) => key);
      expect(refused).toEqual(documented.refused);
      for (const result of results.values())
        if (result.type === 'refused') expect(result.reason).not.toMatch(/person1|secret-of/i);
    },
  );

  it.each(Object.entries(documented).filter(([, { left }]) => left !== undefined))(
    '%s sends a row that has left as documented',
    async (name, documented) => {
      answering({
        ...documented,
        reply: only(200, name === 'search' ? { items: [{ delete: { status: 200 } }] } : {}),
      });
      const results = await deliver(await open(name), [leaver], 500);
      expect(results.get(leaver.id)).toEqual({ type: 'acknowledged' });
      expect(receiver.received.map(shown)).toEqual([documented.left]);
    },
  );
});
