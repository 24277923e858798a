import { describe, expect, it } from 'vitest';
import { accountOf, tenantFamily } from '../../../src/rate-limit/budget.js';
import { ProcessBudget } from '../../../src/rate-limit/open-budget.js';
import { ManualClock } from '../api/clocks.js';

describe('accountOf', () => {
  it.each([
    ['acme', 'acme'],
    ['acme-sb-12', 'acme'],
    ['acme-sb-', 'acme-sb-'],
    ['acme-sb-x', 'acme-sb-x'],
    ['a-sb-1-sb-2', 'a-sb-1'],
  ])('counts %s to the family of %s', (tenantId, family) => {
    expect(tenantFamily(tenantId)).toBe(family);
  });

  it('is the same for one service however its address is written', () => {
    const [lower, upper] = ['https://cds.example', 'https://CDS.example'].map((baseUrl) =>
      accountOf({ baseUrl, tenantId: 'acme' }, 'profile'),
    );
    expect(upper).toEqual(lower);
  });
});

describe('ProcessBudget', () => {
  const account = (tenantId: string, group: 'profile' | 'management' = 'profile', baseUrl = 'https://cds.example') =>
    accountOf({ baseUrl, tenantId }, group);

  it('gives a tenant and its sandboxes one limiter for each group and address', () => {
    const budget = new ProcessBudget(new ManualClock());
    const limiter = budget.limiterFor(account('acme'), 2_000);
    expect(budget.limiterFor(account('acme-sb-2'), 2_000)).toBe(limiter);
    expect(budget.limiterFor(account('acme', 'management'), 2_000)).not.toBe(limiter);
    expect(budget.limiterFor(account('other'), 2_000)).not.toBe(limiter);
    expect(budget.limiterFor(account('acme', 'profile', 'https://other.example'), 2_000)).not.toBe(limiter);
  });

  it('keeps the smaller of two limits', () => {
    const budget = new ProcessBudget(new ManualClock());
    const limiter = budget.limiterFor(account('acme'), 500);
    budget.limiterFor(account('acme-sb-1'), 2_000);
    expect(limiter.effectiveLimit).toBe(500);
    budget.limiterFor(account('acme-sb-2'), 20);
    expect(limiter.effectiveLimit).toBe(20);
  });
});
