import { describe, expect, it } from 'vitest';
import { httpDestinations, json, types } from '../../fixtures/http-destinations.js';
import { someRecords } from '../../fixtures/record-driver.js';

const { receiver, once } = httpDestinations();

describe('results', () => {
  it('that refuse a record are not taken back by a later entry that has no error', async () => {
    const errors = [{ index: 0, error: 'bad' }, { index: 0 }, { index: 1 }];
    receiver().reset((_, response) => json(response, 200, { errors }));
    const response = { results: { path: 'errors', index: 'index', refused: 'error' } };
    expect(types(await once({ batch: {}, response }, someRecords(2)))).toEqual(['refused', 'acknowledged']);
  });

  it('of a 429 count for nothing: all is sent again', async () => {
    receiver().reset((_, response) => json(response, 429, { items: [{ status: 201 }, { status: 400 }] }));
    const response = { results: { path: 'items', status: 'status' } };
    expect(types(await once({ batch: {}, response }, someRecords(2)))).toEqual(['again', 'again']);
  });
});
