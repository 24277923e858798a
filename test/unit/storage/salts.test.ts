import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { saltPads } from '../../../src/columns/masked-value.js';
import { Database, type Session } from '../../../src/storage/duckdb.js';

const salt = 'Kx7!pepper of sixteen and more';
const fingerprint = 'f0f1';
const bytes = Buffer.from(salt);
const { inner, outer } = saltPads(bytes);

/** The spellings in which DuckDB could show bytes. */
function spellings(secret: Buffer): string[] {
  const hex = secret.toString('hex');
  const escaped = [...secret].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('');
  const asDuckdbShows = [...secret]
    .map((byte) =>
      byte >= 32 && byte < 127 ? String.fromCharCode(byte) : `\\x${byte.toString(16).toUpperCase().padStart(2, '0')}`,
    )
    .join('');
  return [hex, escaped, asDuckdbShows, secret.toString('base64').slice(0, 16)].map(bare);
}

/** Each cast to text escapes once more. */
function bare(text: string): string {
  return text.toLowerCase().replaceAll(/[\\'"]/g, '');
}

describe('a salt', () => {
  let database: Database;
  let user: Session;
  let converter: Session;

  beforeAll(async () => {
    database = await Database.open({ memoryMb: 300, threads: 2 });
    user = await database.connect();
    // The most that SQL of a user could prepare before salts are there.
    await user.run("CALL enable_logging(level = 'trace')");
    await database.defineSalts([{ fingerprint, bytes }]);
    converter = await database.connectToConvert();
    await converter.rows(`SELECT cdsync_hmac_${fingerprint}('a')`);
  });
  afterAll(() => {
    user.close();
    converter.close();
    database.close();
  });

  it.each(['', 'a', 'é\uFEFF', 'x'.repeat(200)])('hashes %j alike in every session', async (text) => {
    const expected = createHmac('sha256', bytes).update(text).digest('hex');
    for (const session of [user, converter]) {
      const [row] = await session.rows(
        `SELECT cdsync_hmac_${fingerprint}('${text}') AS hashed, cdsync_hmac_${fingerprint}(NULL) AS nothing`,
      );
      expect(row).toEqual({ hashed: expected, nothing: null });
    }
  });

  it('longer than a block of SHA-256 gives the same in every session', async () => {
    const long = Buffer.from('l'.repeat(100));
    await database.defineSalts([{ fingerprint: 'long', bytes: long }]);
    const session = await database.connectToConvert();
    const expected = createHmac('sha256', long).update('a').digest('hex');
    for (const one of [user, session])
      expect(await one.rows("SELECT cdsync_hmac_long('a') AS hashed")).toEqual([{ hashed: expected }]);
    session.close();
  });

  it('is in nothing that SQL can read: catalog, settings, variables, logs', async () => {
    const functions = await user.rows(
      `SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'table' AND len(parameters) = 0`,
    );
    const views = await user.rows('SELECT DISTINCT schema_name, view_name FROM duckdb_views()');
    const sources = [
      ...functions.map(({ function_name }) => `"${function_name}"()`),
      ...views.map(({ schema_name, view_name }) => `"${schema_name}"."${view_name}"`),
    ];
    const secrets = [bytes, inner, outer].flatMap(spellings);
    let readable = 0;
    for (const source of sources) {
      const rows = await user.jsonRows(`SELECT x::VARCHAR AS t FROM ${source} x`).catch(() => undefined);
      if (rows === undefined) continue;
      readable += 1;
      const shown = bare(JSON.stringify(rows));
      for (const secret of [bare(salt), ...secrets]) expect(shown.includes(secret), source).toBe(false);
    }
    expect(readable).toBeGreaterThan(30);
  });

  it('would be seen there if a statement had it', async () => {
    const digits = [...inner].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('');
    await user.run(`CREATE MACRO with_pad(value) AS sha256('${digits}'::BLOB || encode(value))`);
    const rows = await user.jsonRows('SELECT x::VARCHAR AS t FROM duckdb_functions() x');
    expect(spellings(inner).some((secret) => bare(JSON.stringify(rows)).includes(secret))).toBe(true);
  });
});
