import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as openpgp from 'openpgp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keyLines } from '../../../connectors/export/pgp.js';
import { loadConfig } from '../../../src/config/load.js';
import { members, withStream } from './sample.js';

const day = 86_400_000;
/** Keys must not be younger than the clock that reads them. */
const ago = (days: number) => new Date(Date.now() - days * day);
const user = { userIDs: [{ name: 'partner' }], type: 'curve25519' as const };

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-keys-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const made = async (options: Record<string, unknown>) => {
  const pair = await openpgp.generateKey({ ...user, date: ago(40), ...options, format: 'object' });
  return pair as unknown as { privateKey: openpgp.PrivateKey; publicKey: openpgp.PublicKey };
};

const keys: Record<string, () => Promise<string>> = {
  ended: async () => (await made({ keyExpirationTime: (10 * day) / 1000 })).publicKey.armor(),
  'with an ended sub-key': async () =>
    (await made({ subkeys: [{ keyExpirationTime: (10 * day) / 1000 } as openpgp.SubkeyOptions] })).publicKey.armor(),
  'with an ended sub-key and a new one': async () => {
    const { privateKey } = await made({ subkeys: [{ keyExpirationTime: (10 * day) / 1000 } as openpgp.SubkeyOptions] });
    return (await privateKey.addSubkey({ sign: false, date: ago(5) } as never)).toPublic().armor();
  },
  'that only signs': async () => (await made({ subkeys: [] })).publicKey.armor(),
  private: async () => (await made({})).privateKey.armor(),
  revoked: async () => {
    const { privateKey } = await made({});
    const revoked = await openpgp.revokeKey({ key: privateKey, date: ago(1), format: 'object' });
    return (revoked as unknown as { publicKey: openpgp.PublicKey }).publicKey.armor();
  },
  'of 1024 bits': async () =>
    (await made({ type: 'rsa', rsaBits: 1024, config: { minRSABits: 1024 } })).publicKey.armor(),
  'that ends in ten days': async () => (await made({ keyExpirationTime: (50 * day) / 1000 })).publicKey.armor(),
  'whose sub-key ends in ten days': async () =>
    (await made({ subkeys: [{ keyExpirationTime: (50 * day) / 1000 } as openpgp.SubkeyOptions] })).publicKey.armor(),
  usable: async () => (await made({})).publicKey.armor(),
};

async function config(...blocks: string[]): Promise<string> {
  const pgp = join(folder, `${Math.random()}.asc`);
  await writeFile(pgp, blocks.join('\n'));
  const path = join(folder, `${Math.random()}.yaml`);
  const job = withStream(...members).trimEnd();
  await writeFile(
    path,
    `${job}
    destinations:
      - name: partner
        connector: export
        path: ./out
        file: list_{{ sequence }}.csv
        encrypt: { pgp: [${pgp}] }
`,
  );
  return path;
}

const load = (path: string) => loadConfig(path, { env: {}, cwd: folder, needs: { destinations: true } });

describe('a key file of a partner, when the configuration is read', () => {
  it.each([
    ['ended', /the key [0-9A-F]{40} ended on \d{4}-\d\d-\d\d$/],
    ['with an ended sub-key', /has no sub-key for encryption that has not ended$/],
    ['that only signs', /has no usable sub-key for encryption$/],
    ['private', /holds a private key, which /],
    ['revoked', /the key [0-9A-F]{40} was revoked$/],
    ['of 1024 bits', /has 1024 bits, which is too short$/],
  ])('is refused: %s', async (name, message) => {
    const usable = (await keys.usable?.()) ?? '';
    const path = await config(usable, (await keys[name]?.()) ?? '');
    const error = await load(path).catch((thrown) => thrown);
    expect(error).toMatchObject({ code: 'config_invalid', kind: 'configuration' });
    expect(error.message).toMatch(/^\S+\.yaml:14:9 {2}jobs\.a\.destinations\[0\]: /);
    expect(error.message).toMatch(message);
    // Commands that hand nothing over do not need the key.
    await expect(loadConfig(path, { env: {}, cwd: folder })).resolves.toBeDefined();
  });

  it.each(['with an ended sub-key and a new one', 'usable', 'that ends in ten days'])('is taken: %s', async (name) => {
    await expect(load(await config((await keys[name]?.()) ?? ''))).resolves.toBeDefined();
  });

  const soon = ['that ends in ten days', 'whose sub-key ends in ten days'];
  it.each(soon)('is warned of by checks from thirty days before its end: %s', async (name) => {
    const pgp = join(folder, 'soon.asc');
    await writeFile(pgp, (await keys[name]?.()) ?? '');
    const { shown, warnings } = await keyLines({ pgp: [pgp], armor: false } as never);
    const end = new Date(Date.now() + 10 * day).toISOString().slice(0, 10);
    expect(shown).toContain(`until ${end}`);
    expect(warnings).toEqual([expect.stringContaining('ends soon')]);
  });

  it.each([
    '',
    'no key at all\n',
    '-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n-----END PGP PUBLIC KEY BLOCK-----\n',
  ])('is refused if it is none: %j', async (text) => {
    await expect(load(await config(text))).rejects.toMatchObject({ code: 'config_invalid' });
  });
});
