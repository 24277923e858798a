import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { exportOptions } from '../../../connectors/export/options.js';
import { copySql } from '../../../connectors/export/text.js';
import { parseColumnType } from '../../../src/sdk/column-type.js';
import { map } from '../../../src/sdk/option.js';
import { Database, type Session } from '../../../src/storage/duckdb.js';
import { randomFrom } from '../../fault/random.js';

let folder: string;
let database: Database;
let session: Session;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-export-quotes-'));
  database = await Database.open({ memoryMb: 128, threads: 2 });
  session = await database.connect();
});
afterAll(async () => {
  session.close();
  database.close();
  await rm(folder, { recursive: true, force: true });
});

const signs = [
  '"',
  '""',
  ';',
  ',',
  '\t',
  '|',
  '^',
  ']',
  '-',
  '\\',
  '\r',
  '\n',
  '\r\n',
  ' ',
  '#',
  "'",
  '\x01',
  '\0',
  'a',
  'é',
  'NULL',
  '0',
  '=',
];
const quoted = {
  all: `QUOTE '"', ESCAPE '"', FORCE_QUOTE *`,
  needed: `QUOTE '"', ESCAPE '"'`,
  none: `QUOTE '', ESCAPE ''`,
};

it.each([';', ',', '\t', '|', '^', ']', '-', '\\', ' '])(
  'writes lines as a COPY of columns writes them, delimiter %j',
  async (delimiter) => {
    const random = randomFrom(delimiter.charCodeAt(0));
    const pick = <T>(list: readonly T[]) => list[Math.floor(random() * list.length)] as T;
    const literal = () => {
      if (random() < 0.1) return 'NULL';
      const text = Array.from({ length: Math.floor(random() * 4) }, () => pick(signs)).join('');
      return [...text].map((sign) => `chr(${sign.codePointAt(0)})`).join(' || ') || "''";
    };
    const rows = Array.from(
      { length: 150 },
      (_, at) => `(${at}, ${literal()}, ${literal()}, ${pick(['NULL', '0', '-5'])})`,
    );
    await session.run(`CREATE OR REPLACE TEMP TABLE texts AS FROM (VALUES ${rows.join(', ')}) AS t(nr, c0, c1, c2)`);
    const query = 'SELECT * FROM texts';
    const columns = ['VARCHAR', 'VARCHAR', 'BIGINT'].map((type, at) => ({
      name: `c${at}`,
      type: parseColumnType(type),
      duckdbType: type,
    }));
    for (const quote of ['all', 'needed', 'none'] as const)
      for (const none of ['', 'NULL', '0', '-'].filter((text) => text === '' || !text.includes(delimiter))) {
        const options = z.parse(map(exportOptions), {
          path: folder,
          file: 'list.csv',
          csv: { delimiter, quote, null: none },
        });
        const [lines, plain] = [join(folder, 'lines'), join(folder, 'plain')];
        await session.number(copySql({ query, order: 'nr' }, columns, options, lines));
        await session.run(
          `COPY (SELECT c0, c1, c2 FROM (${query}) ORDER BY nr) TO '${plain}' (FORMAT csv, HEADER false, DELIMITER '${delimiter}', NULLSTR '${none}', ${quoted[quote]}, NEW_LINE '\\n')`,
        );
        expect(await readFile(lines, 'utf8')).toBe(await readFile(plain, 'utf8'));
      }
  },
);
