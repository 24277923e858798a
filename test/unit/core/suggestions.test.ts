import { describe, expect, it } from 'vitest';
import { nameHint, nearest } from '../../../src/core/suggestions.js';

describe('the hint for a name that does not exist', () => {
  const known = ['members', 'vip', 'vip_profiles'];

  it.each([
    ['membrs', 'did you mean "members"?'],
    ['vipp', 'did you mean "vip"?'],
    ['members,vip', 'name one at a time, and repeat the option: "members", "vip"'],
    ['loyalty_points_2024', 'its streams: members, vip, vip_profiles'],
  ])('%s: %s', (name, hint) => {
    expect(nameHint('its streams', name, known)).toBe(hint);
  });

  it('begins with the name of the same case', () => {
    expect(nearest('nmae', ['Name', 'name'])).toEqual(['name', 'Name']);
  });

  it('says that there are none', () => {
    expect(nameHint('its streams', 'members', [])).toBe('its streams: none');
  });
});
