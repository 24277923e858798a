import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { substituted } from '../fixtures/recipes.js';
import { SshServer, sshdIsInstalled } from '../fixtures/sshd.js';
import { Workspace } from '../fixtures/workspace.js';

const sha256 = (value: string | Buffer) => createHash('sha256').update(value).digest('hex');

describe.skipIf(!sshdIsInstalled())('docs/recipes/partners.yaml', () => {
  let space: Workspace;
  let server: SshServer;
  let env: Record<string, string>;
  beforeAll(async () => {
    [space, server] = [await Workspace.open({ profiles: 500 }), await SshServer.start()];
    const { url, tenantId, clientId, clientSecret } = space.service;
    env = { CDS_BASE_URL: url, CDS_TENANT_ID: tenantId, CDS_CLIENT_ID: clientId, CDS_CLIENT_SECRET: clientSecret };
    env.PARTNER_KEY = server.key;
    const own = new Map([
      ['sftp://cdp@files.partner.example/incoming', server.url],
      ['SHA256:…', server.prints.ed25519],
    ]);
    const recipe = await readFile(join(import.meta.dirname, '..', '..', 'docs', 'recipes', 'partners.yaml'), 'utf8');
    await writeFile(join(space.folder, 'partners.yaml'), substituted(recipe, own));
  });
  afterAll(async () => {
    await server.close();
    await space.close();
  });

  /** @returns the destinations that have said something */
  const run = async () => {
    const { stdout } = await space.cdsync(['run', 'partners.yaml', '--json', '--quiet'], env);
    const [{ destinations }] = JSON.parse(stdout).jobs;
    return destinations.flatMap(({ name, error }: { name: string; error: { code: string } | null }) =>
      error === null ? [] : [`${name}: ${error.code}`],
    );
  };
  const rowsOf = (sql: string) => space.query('partners', sql);
  const folder = async (name: string) => (await readdir(join(space.folder, name))).sort();

  it('gets a list with a control file, changes with hashes, and Latin-1', async () => {
    // Some of the names have letters that the printer's encoding lacks.
    expect(await run()).toEqual(['printer: values_refused']);
    const [members] = await rowsOf('SELECT count(*)::INT AS rows FROM members');
    const rows = Number(members?.rows);
    expect(rows).toBeGreaterThan(400);

    const [list = '', control = ''] = (await readdir(server.inbox)).sort();
    expect(list).toMatch(/^LOYALTY_\d{8}_000001\.csv\.gz$/);
    expect(control).toBe(`${list}.ctl`);
    const packed = await readFile(join(server.inbox, list));
    expect(await readFile(join(server.inbox, control), 'utf8')).toBe(
      `${list};${rows};${packed.length};${sha256(packed)}`,
    );
    const lines = gunzipSync(packed).toString('utf8').split('\r\n');
    expect(lines.slice(0, 2)).toEqual([
      expect.stringMatching(/^HDR;\d{4}-\d\d-\d\d$/),
      '"id";"first_name";"last_name";"tier";"joined_at"',
    ]);
    expect(lines.slice(-2)).toEqual([`TRL;${rows}`, '']);
    expect(lines).toHaveLength(rows + 4);
    expect(lines.slice(2, -2).every((line) => /^("[^"]*";?){4}/.test(line))).toBe(true);

    expect(await folder('ads')).toEqual([expect.stringMatching(/^audience_inserted_\d{4}-\d\d-\d\d_1\.csv$/)]);
    const [first] = await folder('ads');
    const sent = (await readFile(join(space.folder, 'ads', first ?? ''), 'utf8')).trimEnd().split('\n');
    expect(sent[0]).toBe('_op,Email,Phone,id');
    const emails = await rowsOf(
      'SELECT id, lower(trim(email)) AS email FROM members WHERE email IS NOT NULL ORDER BY id',
    );
    expect(sent.slice(1).map((line) => [line.split(',')[3], line.split(',')[1]])).toEqual(
      emails.map(({ id, email }) => [id, sha256(String(email))]),
    );

    expect(await folder('printer')).toEqual(['brief_0001.txt', 'work']);
    const letters = await readFile(join(space.folder, 'printer', 'brief_0001.txt'));
    const [header, ...people] = letters.toString('latin1').trimEnd().split('\r\n');
    expect(header).toBe('Name\tVorname\tGeburtstag');
    const named = await rowsOf('SELECT id, first_name, last_name FROM members ORDER BY id');
    const isLatin = (name: unknown) => /^[\0-\xff]*$/.test(String(name ?? ''));
    const printable = named.filter((row) => isLatin(row.first_name) && isLatin(row.last_name));
    expect(people.map((line) => line.split('\t').slice(0, 2))).toEqual(
      printable.map((row) => [row.last_name ?? '', row.first_name ?? '']),
    );
    expect(people.every((line) => /^[^\t]*\t[^\t]*\t(\d\d\.\d\d\.\d{4})?$/.test(line))).toBe(true);
  }, 120_000);

  it('gets the next files after a day, and none after a quiet run', async () => {
    await space.control('change', { days: 1 });
    const said = await run();
    expect(said.filter((line: string) => line !== 'printer: values_refused')).toEqual([]);
    expect((await readdir(server.inbox)).filter((name) => name.endsWith('.gz'))).toHaveLength(2);
    const ads = await folder('ads');
    expect(ads.some((name) => name.startsWith('audience_updated_'))).toBe(true);
    expect(ads.length).toBeGreaterThan(1);
    expect(await run()).toEqual([]);
    expect((await readdir(server.inbox)).filter((name) => name.endsWith('.gz'))).toHaveLength(2);
    expect(await folder('ads')).toEqual(ads);
  }, 120_000);
});
