import { describe, expect, it } from 'vitest';
import {
  duckdbDialect,
  type FoundColumns,
  type Load,
  loadRefused,
  SqlDestination,
  type SqlDialect,
  type SqlRow,
  type SqlSession,
  unavailable,
} from '../../../src/sdk/index.js';

/** Notes every statement. Each change reports one row, each query one row of zeros. */
class NotingSession implements SqlSession {
  readonly statements: string[] = [];

  async rows(sql: string): Promise<SqlRow[]> {
    this.statements.push(sql);
    return [{ n: 0, s: '0' }];
  }

  async run(sql: string): Promise<number> {
    this.statements.push(sql);
    return 1;
  }

  async fill(target: string): Promise<number> {
    this.statements.push(`fill ${target}`);
    return 0;
  }

  async begin(): Promise<void> {
    this.statements.push('BEGIN');
  }

  async commit(): Promise<void> {
    this.statements.push('COMMIT');
  }

  async rollback(): Promise<void> {
    this.statements.push('ROLLBACK');
  }

  stop(): void {}

  async close(): Promise<void> {}
}

class Noting extends SqlDestination<NotingSession> {
  protected override async find(): Promise<FoundColumns> {
    return { columns: [{ name: 'id', type: 'VARCHAR' }], comment: 'of the user [cdsync 1:old]' };
  }
}

const text = { kind: 'text' } as const;
const id = { name: 'id', type: 'VARCHAR', kind: text };
const key = { destination: 'target', stream: 'people', table: 'people' };

function loadOf(parts: Partial<Load> = {}): Load {
  const column = { name: 'id', type: text, duckdbType: 'VARCHAR', targetType: 'VARCHAR', handedOverAs: text };
  return {
    state: key,
    table: { name: 'people', columns: [id], key: ['id'], isKeyed: true },
    before: { ...key, version: 3, record: 'before' },
    intent: 'intent',
    change: { drop: false, create: false, add: [], widen: [] },
    write: { type: 'merge', absent: 'keep', isReload: false },
    empty: [],
    clear: [],
    erase: [],
    undo: undefined,
    supersedes: [],
    data: { columns: [column], rows: 0, handedOver: 0, files: async function* () {}, batches: async function* () {} },
    readBack: undefined,
    id: '2:new',
    isReload: false,
    moment: '2026-01-01T00:00:00.000Z',
    rows: 0,
    finish: () => ({ record: 'after', line: {} }),
    signal: new AbortController().signal,
    ...parts,
  };
}

/** The statements of a load whose database commits DDL at once. */
async function statementsOf(load: Load, dialect: Partial<SqlDialect> = {}): Promise<string[]> {
  const session = new NotingSession();
  const merge = () => [{ sql: 'MERGE', counts: 0 }] as const;
  const destination = new Noting(
    { ...duckdbDialect('cdp'), commit: 'transaction', stamps: 'reload', merge, ...dialect },
    session,
  );
  await destination.describe('people');
  await destination.load(load);
  return session.statements;
}

describe('a load in a database whose DDL commits at once', () => {
  it('stamps a table that is loaded whole before the transaction, after the intent', async () => {
    const statements = await statementsOf(loadOf({ isReload: true }));
    const at = (part: string) => statements.findIndex((sql) => sql.includes(part));
    const order = ['fill', "'intent'", 'COMMENT ON TABLE', 'BEGIN', 'MERGE', "'after'", 'COMMIT'].map(at);
    expect(order.every((index) => index >= 0)).toBe(true);
    expect(order).toEqual([...order].sort((a, b) => a - b));
    expect(statements[at('COMMENT ON TABLE')]).toContain("'of the user [cdsync 2:new]'");
  });

  it.for([
    { drop: true, create: true, add: [], widen: [] },
    { drop: false, create: false, add: [{ ...id, name: 'age' }], widen: [] },
    { drop: false, create: false, add: [], widen: [id] },
  ])('announces each change of the table before it is made: %o', async (change) => {
    const statements = await statementsOf(loadOf({ change }));
    const intent = statements.findIndex((sql) => sql.includes("'intent'"));
    const changed = statements.findIndex((sql) => /^(CREATE|ALTER|DROP) TABLE .*"people"/.test(sql));
    expect(intent).toBeGreaterThanOrEqual(0);
    expect(changed).toBeGreaterThan(intent);
  });

  /** The statements of a load that makes its table again, which is refused. */
  async function recreated(before: Load['before'], refused: Error): Promise<string[]> {
    const session = new NotingSession();
    const run = session.run.bind(session);
    session.run = async (sql) => {
      const count = await run(sql);
      if (sql.startsWith('DROP TABLE IF EXISTS "cdp"."people"')) throw refused;
      return count;
    };
    const change = { drop: true, create: true, add: [], widen: [] };
    const destination = new Noting({ ...duckdbDialect('cdp'), commit: 'transaction' }, session);
    await expect(destination.load(loadOf({ change, before }))).rejects.toBe(refused);
    return session.statements;
  }

  it.each([
    ['with a record', loadOf().before, 'SET "version" = 5, "record" = \'before\''],
    ['without one', undefined, 'DELETE FROM "cdp"."_cdsync_state" WHERE "destination" = \'target\''],
  ])('takes the intent back if the server refuses to drop the table: one %s', async (_, before, undone) => {
    const statements = await recreated(before, loadRefused('a view needs it'));
    const at = (part: string) => statements.findIndex((sql) => sql.includes(part));
    expect(at("'intent'")).toBeGreaterThanOrEqual(0);
    expect(at(undone)).toBeGreaterThan(at('DROP TABLE IF EXISTS "cdp"."people"'));
  });

  it('keeps the intent if the connection is lost while the table is dropped', async () => {
    const statements = await recreated(loadOf().before, unavailable('it has gone away'));
    expect(statements.filter((sql) => sql.includes("'before'"))).toEqual([]);
  });

  it.each([
    ['a column that a person has narrowed', {}, 'VARCHAR(3)'],
    [
      'not one that this load widens',
      { change: { drop: false, create: false, add: [], widen: [{ ...id, name: 'n' }] } },
      'VARCHAR',
    ],
    ['not one of a table that is made again', { change: { drop: true, create: true, add: [], widen: [] } }, 'VARCHAR'],
  ])(
    'stages in the type of the table, so that the server names each value that it cannot hold: %s',
    async (_, load, type) => {
      class Narrowed extends Noting {
        protected override async find(): Promise<FoundColumns> {
          const columns = ['id', 'n'].map((name) => ({ name, type: 'VARCHAR(3)' }));
          return { columns, comment: null };
        }
      }
      const session = new NotingSession();
      const isNarrower: SqlDialect['isNarrower'] = (found, mapped) => found === 'VARCHAR(3)' && mapped === 'VARCHAR';
      const destination = new Narrowed({ ...duckdbDialect('cdp'), isNarrower }, session);
      const { data } = loadOf();
      const columns = ['id', 'n'].map((name) => ({ ...data.columns[0], name })) as unknown as typeof data.columns;
      await destination.describe('people');
      await destination.load(loadOf({ ...load, data: { ...data, columns } }));
      const staged = session.statements.find((sql) => /^CREATE .*_cdsync_stage/.test(sql));
      expect(staged).toContain(`("id" VARCHAR, "n" ${type})`);
    },
  );

  it('neither announces nor stamps an increment', async () => {
    const statements = await statementsOf(loadOf());
    expect(statements.filter((sql) => /intent|COMMENT/.test(sql))).toEqual([]);
  });

  it('stages rows of a new table too where files are not loaded within a transaction', async () => {
    const change = { drop: false, create: true, add: [], widen: [] };
    const load = loadOf({ change, write: { type: 'fill' }, before: undefined });
    const statements = await statementsOf(load, { stagesAll: true });
    const at = (part: string) => statements.findIndex((sql) => sql.includes(part));
    expect(at('fill temp._cdsync_stage')).toBeLessThan(at('CREATE TABLE "cdp"."people"'));
    expect(at('BEGIN')).toBeLessThan(
      at('INSERT INTO "cdp"."people" ("id") SELECT "id" FROM temp._cdsync_stage AS cdsync_staged'),
    );
  });

  it('adds its first record by MERGE where no key is enforced', async () => {
    const statements = await statementsOf(loadOf({ before: undefined }), { mergesState: true });
    const merged = statements.find((sql) => sql.startsWith('MERGE INTO "cdp"."_cdsync_state"'));
    expect(merged).toContain('WHEN NOT MATCHED THEN INSERT');
    expect(merged).toContain('t."destination" = s."destination" AND t."stream" = s."stream"');
  });

  it('says that it was fenced if another delivery has added that record', async () => {
    const session = new NotingSession();
    session.run = async (sql) => (sql.startsWith('MERGE INTO') ? 0 : 1);
    const dialect: SqlDialect = { ...duckdbDialect('cdp'), mergesState: true };
    const load = new Noting(dialect, session).load(loadOf({ before: undefined }));
    await expect(load).rejects.toMatchObject({ code: 'fenced' });
    expect(session.statements.at(-1)).toBe('ROLLBACK');
  });
});

/** A database without transactions: records are added, and the newest counts. */
class SteppingSession extends NotingSession {
  version = 3;
  /** Whether each record meets another one of its version. */
  hasTwin = false;

  override async rows(sql: string): Promise<SqlRow[]> {
    this.statements.push(sql);
    if (sql.includes('max(')) return [{ n: this.version }];
    return [{ n: this.hasTwin && sql.includes(' >= ') ? 1 : 0, s: '0' }];
  }

  override async run(sql: string): Promise<number> {
    if (sql.startsWith('INSERT INTO "cdp"."_cdsync_state"')) this.version += 1;
    return super.run(sql);
  }
}

describe('a load in a database without transactions', () => {
  const merge = ({ version }: { readonly version: number }) => [{ sql: `MERGE ${version}` }];
  const dialect: SqlDialect = { ...duckdbDialect('cdp'), commit: 'steps', addsState: true, merge };

  async function stepping(load: Partial<Load>, session = new SteppingSession()): Promise<string[]> {
    const destination = new Stepping(dialect, session);
    await destination.describe('people');
    await destination.load(loadOf(load));
    return session.statements;
  }

  class Stepping extends Noting {
    protected override async find(): Promise<FoundColumns> {
      const columns = ['id', '_cdsync_load'].map((name) => ({ name, type: 'VARCHAR' }));
      return { columns, comment: null };
    }
  }

  it('has the intent before anything, the record last, and nothing that is rolled back', async () => {
    const statements = await stepping({ undo: '1:cut', rows: 0 });
    const parts = ['"_cdsync_load" = \'1:cut\'', "4, 'intent'", 'MERGE 4', 'COMMENT ON TABLE', "5, 'after'", '< 5'];
    const at = parts.map((part) => statements.findIndex((sql) => sql.includes(part)));
    expect(at.every((index) => index >= 0)).toBe(true);
    expect(at).toEqual([...at].sort((a, b) => a - b));
  });

  it('names the load in each row of a log', async () => {
    const load = { name: '_cdsync_load', type: 'VARCHAR', kind: text };
    const table = { name: 'people', columns: [id, load], key: ['id'], isKeyed: false };
    const statements = await stepping({ table, write: { type: 'append', runs: [] } });
    expect(statements).toContain(
      `INSERT INTO "cdp"."people" ("id", "_cdsync_load") SELECT "id", '2:new' FROM temp._cdsync_stage AS cdsync_staged`,
    );
  });

  it('ends if another delivery writes a record at the same moment, and takes its own back', async () => {
    const session = new SteppingSession();
    session.hasTwin = true;
    await expect(stepping({}, session)).rejects.toMatchObject({ code: 'fenced' });
    expect(session.statements.some((sql) => sql.startsWith('MERGE'))).toBe(false);
    expect(session.statements.find((sql) => sql.startsWith('DELETE FROM "cdp"."_cdsync_state"'))).toContain("'intent'");
  });

  it('ends if another delivery has written a record before', async () => {
    const session = new SteppingSession();
    session.version = 4;
    await expect(stepping({}, session)).rejects.toMatchObject({ code: 'fenced' });
    expect(session.statements.some((sql) => sql.includes("'intent'"))).toBe(false);
  });

  it('does not merge into a table whose number of rows has changed', async () => {
    await expect(stepping({ rows: 7 })).rejects.toMatchObject({ code: 'table_moved' });
  });

  it.each([
    ['dropped', false],
    ['left', true],
  ])('says in its record whether staged rows, also those of a killed load, are %s', async (_, owes) => {
    const session = new SteppingSession();
    const run = session.run.bind(session);
    session.run = async (sql) => {
      if (owes && sql === 'DROP of a killed load') throw new Error('not allowed');
      return run(sql);
    };
    const outcomes: unknown[] = [];
    class Leaving extends Stepping {
      protected override async leftovers(table: string): Promise<string[]> {
        expect(table).toBe('people');
        return ['DROP of a killed load'];
      }
    }
    const destination = new Leaving(dialect, session);
    const finish: Load['finish'] = (outcome) => {
      outcomes.push(outcome.owes, session.statements.at(-1));
      return { record: 'after', line: {} };
    };
    await destination.load(loadOf({ finish }));
    expect(outcomes).toEqual([owes, 'DROP TABLE IF EXISTS temp._cdsync_stage']);
    if (owes) await expect(destination.removeLeft(key)).rejects.toThrow('not allowed');
    else await destination.removeLeft(key);
  });

  it('drops staged rows even after a stop', async () => {
    const session = new SteppingSession();
    const stopping = new AbortController();
    const tidied: string[] = [];
    session.fill = async () => {
      stopping.abort();
      throw new Error('stopped');
    };
    Object.assign(session, { cleanUp: async (sql: string) => tidied.push(sql) });
    await expect(stepping({ signal: stopping.signal }, session)).rejects.toThrow('stopped');
    expect(tidied).toEqual(['DROP TABLE IF EXISTS temp._cdsync_stage']);
  });
});

it.each([
  [{ kind: 'double' }, '3ff8000000000000', '1.5'],
  [{ kind: 'decimal', precision: 18, scale: 2 }, '-0.50', '-0.50'],
  [{ kind: 'decimal', precision: 18, scale: 0 }, '1234567890123456', '1234567890123456'],
  [{ kind: 'decimal', precision: 4, scale: 2 }, "1 OR '1' = '1", "'1 OR ''1'' = ''1'"],
] as const)(
  'an erased key of %o is compared as a value where the database has no text of it',
  async (kind, text, sql) => {
    const table = { name: 'people', columns: [{ ...id, kind }], key: ['id'], isKeyed: true };
    const statements = await statementsOf(loadOf({ table, erase: [[text]], rows: 1 }), { canonical: () => undefined });
    expect(statements.find((each) => each.startsWith('DELETE FROM "cdp"."people"'))).toContain(`"id" = ${sql}`);
  },
);
