import { expect, it } from 'vitest';
import { z } from 'zod';
import { type HttpOptions, usedColumns } from '../../../connectors/http/form.js';
import { httpOptions } from '../../../connectors/http/options.js';
import { map } from '../../../src/sdk/option.js';

const used = (options: Record<string, unknown>) =>
  usedColumns(z.parse(map(httpOptions), { url: 'https://api.example/x', ...options }) as HttpOptions);

it('needs the columns of all its templates, whatever the kind of change', () => {
  const columns = used({
    url: 'https://api.example/{{ a }}',
    headers: { x: '{{ b | upcase }}' },
    body: { one: ['{{ c }} and {{ d }}'], key: '{{ _key }}' },
    update: { body: { other: '{% if e %}1{% endif %}' } },
    delete: { method: 'delete', url: 'https://api.example/{{ f }}', body: 'none' },
    response: { results: { path: 'errors', key: 'id', equals: '{{ g }}' } },
  });
  expect([...new Set(columns)].sort()).toEqual(['a', 'b', 'c', 'd', 'e', 'f', 'g']);
});

it('needs none of a change that it skips, and all where one is sent as it is', () => {
  expect(
    used({ body: { id: '{{ a }}' }, insert: { body: { id: '{{ b }}' } }, update: 'skip', delete: 'skip' }),
  ).toEqual(['b']);
  expect(used({ insert: { body: { id: '{{ a }}' } } })).toBeUndefined();
});
