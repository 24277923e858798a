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

  it('cannot mean one of two records of one name: these go in two requests', async () => {
    receiver().reset((_, response) => json(response, 200, { failed: [] }));
    const response = { results: { path: 'failed', key: 'id', equals: 'same' } };
    expect(types(await once({ batch: {}, response }, someRecords(2)))).toEqual(['acknowledged', 'acknowledged']);
    expect(receiver().received).toHaveLength(2);
  });

  it('that could mean two records, but for capitals, name neither: halves', async () => {
    receiver().reset((_, response) => json(response, 200, { failed: [{ id: 'KA' }] }));
    const response = { results: { path: 'failed', key: 'id' } };
    const records = someRecords(2).map((record, at) => ({ ...record, key: at === 0 ? 'Ka' : 'kA' }));
    expect(types(await once({ batch: {}, response }, records))).toEqual(['refused', 'refused']);
  });
});
