import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ColumnSet } from '../../../src/columns/columns.js';
import { wantedColumns } from '../../../src/delivery/table/columns.js';
import { rulesOf, Salts, writtenRule } from '../../../src/engine/column-rules.js';
import type { Feed } from '../../../src/snapshot/feed.js';
import { parse, problemsOf, withStream } from '../config/sample.js';

/** Names that could be taken for one another. */
const fields = ['email', 'Email', 'id', 'tier', '*', 'é'];
const path = (field: string) => (field === 'id' ? 'attributes.id' : field);

const envelope = [
  { field: 'id', type: 'VARCHAR' as const },
  { field: 'index_id', type: 'VARCHAR' as const },
];
const columns = () => {
  const set = new ColumnSet(envelope);
  for (const field of fields) set.columnFor('attribute', field);
  return set.store();
};

function streamOf(...lines: string[]) {
  const [stream] = parse(withStream('source: index_profiles', 'index: a', ...lines)).jobs[0]?.streams ?? [];
  if (stream === undefined) throw new TypeError('no stream');
  return stream;
}

const rules = (...lines: string[]) => rulesOf(streamOf(...lines), new Salts(), undefined);

describe('select of a stream', () => {
  it('is a drop of all other attributes', () => {
    // A `drop` also counts for names in another case, a selection does not.
    const names = fields.filter((field) => field !== '*' && field !== 'Email');
    const present = columns().filter(({ field }) => field !== 'Email');
    fc.assert(
      fc.property(fc.subarray(names, { minLength: 1 }), (chosen) => {
        const others = [...names, '*'].filter((field) => !chosen.includes(field));
        const dropped = Object.fromEntries(others.map((field) => [`attributes.${field}`, { drop: true }]));
        const selects = rules(`select: ${JSON.stringify(chosen.map(path))}`);
        const drops = rules(`columns: ${JSON.stringify(dropped)}`);
        expect(selects.keep(present)).toEqual(drops.keep(present));
        expect(selects.leaveOut(present)).toEqual(drops.leaveOut(present));
        expect(selects.unmatched(columns())).toEqual([]);
      }),
    );
  });

  it('and a rule for all others are one: the named columns stay, with their rules', () => {
    const named = '{ email: { mask: all }, tier: { track: false }, "*": { drop: true } }';
    const kept = ['id', 'index_id', 'email', 'tier'];
    const chosen = rules('select: [email, tier]', 'columns: { email: { mask: all }, tier: { track: false } }');
    for (const each of [rules(`columns: ${named}`), chosen])
      expect(each.keep(columns()).map(({ field }) => field)).toEqual(kept);
    expect(chosen.of('attribute', 'email')).toMatchObject({ mask: 'all' });
    expect(chosen.of('attribute', 'Email')).toEqual({ drop: true });
  });

  it('wins over a rule for a column that it does not name, which is not unknown', () => {
    const each = rules('select: [tier]', 'columns: { email: { mask: all } }');
    expect(each.of('attribute', 'email')).toEqual({ drop: true });
    expect(each.unmatched(columns())).toEqual([]);
    expect(rules('select: [tire]').unmatched(columns())).toEqual(['tire']);
  });

  it('of `id` alone is the key, not an attribute of this name', () => {
    expect(rules('select: [id]').isUnselected({ place: 'attribute', field: 'id' })).toBe(true);
    expect(rules('select: [attributes.id]').isUnselected({ place: 'attribute', field: 'id' })).toBe(false);
  });

  it('is the job’s where the stream has none, but not for a query', () => {
    const [job] = parse(
      `${withStream('source: index_profiles', 'index: a')}      - { name: q, source: sql, key: [id], query: select 1 }\n    select: [tier]\n`,
    ).jobs;
    expect(job?.streams.map(({ select }) => select)).toEqual([['tier'], undefined]);
    const query = { ...job?.streams[1], select: ['n'] } as never;
    expect(['id', 'n', 'other'].map((field) => writtenRule(query, { place: 'envelope', field }))).toEqual([
      undefined,
      undefined,
      { drop: true },
    ]);
  });

  it.each([
    ['select: []', 'a list of at least one name'],
    ['select: [a, a]', '"a" is named twice'],
    ['columns: { "*": { mask: all } }', 'all other columns can only be dropped'],
  ])('is refused: %s', (line, said) => {
    expect(problemsOf(withStream('source: index_profiles', 'index: a', line)).join('\n')).toContain(said);
  });

  it('is refused of files, too, if it names a column twice', () => {
    const files = '{ name: f, connector: export, path: ./out, file: a.csv, select: [id, tier, id] }';
    const problems = problemsOf(
      `${withStream('source: index_profiles', 'index: a').trimEnd()}\n    destinations: [${files}]\n`,
    );
    expect(problems.join('\n')).toContain('select[2]: "id" is named twice');
  });

  it.each(['select: [tier]', 'columns: { tier: { track: false }, "*": { drop: true } }'])(
    'needs the values of a partition that it leaves out: %s',
    (line) => {
      const problems = (...more: string[]) =>
        problemsOf(withStream('source: index_profiles', 'index: a', line, ...more)).join('\n');
      expect(problems('partition_by: { attribute: country }')).toContain('its values must be given here');
      expect(problems('partition_by: { attribute: tier }')).toBe('');
    },
  );
});

describe('select of a destination', () => {
  const wanted = (text: string) => {
    const file = `${withStream('source: index_profiles', 'index: a')}    destinations: [{ name: d, connector: duckdb, path: ./d.duckdb, ${text} }]\n`;
    const [destination] = parse(file, {}, { destinations: true }).jobs[0]?.destinations ?? [];
    const feed = { stream: 's', key: ['id'], columns: columns() } as unknown as Feed;
    const all = wantedColumns(feed, destination?.columns ?? new Map());
    return all.filter(({ isDropped }) => !isDropped).map(({ as }) => as);
  };

  it('keeps the key, the envelope and the columns that it names, under their new names', () => {
    expect(wanted('select: [email, tier], columns: { tier: { rename: level }, é: { rename: e } }')).toEqual([
      'id',
      'index_id',
      'email',
      'level',
    ]);
  });

  it('is not a rule for all others, which leaves out the envelope too', () => {
    expect(wanted('columns: { tier: { rename: level }, "*": { drop: true } }')).toEqual(['id', 'level']);
  });
});
