import { readFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import type * as OpenPgp from 'openpgp';
import { CdsyncError, vendorLibrary } from '../../src/sdk/index.js';
import type { ExportOptions } from './names.js';

type Encryption = NonNullable<ExportOptions['encrypt']>;
const dayMs = 86_400_000;
/** From this many days before the end of a key, checks warn. */
const warnedDays = 30;

/** A key, as `check` shows it. */
interface ShownKey {
  readonly fingerprint: string;
  /** When its encryption ends; undefined: never. */
  readonly ends: Date | undefined;
}

function invalid(file: string, problem: string, hint: string, cause?: unknown): CdsyncError {
  return new CdsyncError(`${file}: ${problem}`, { code: 'key_file_invalid', hint, cause });
}

async function library(): Promise<typeof OpenPgp> {
  return vendorLibrary('openpgp', () => import('openpgp'));
}

/** Every key of a file, of each of its blocks. */
async function keysOf(openpgp: typeof OpenPgp, file: string): Promise<OpenPgp.Key[]> {
  const bytes = await readFile(file).catch((cause) => {
    throw new CdsyncError(`${file} cannot be read`, {
      code: 'key_file_unreadable',
      hint: 'check `encrypt.pgp`',
      cause,
    });
  });
  const text = bytes.toString('latin1');
  const blocks = text.match(/-----BEGIN PGP [A-Z ]*KEY BLOCK-----[\s\S]*?-----END PGP [A-Z ]*KEY BLOCK-----/g);
  try {
    if (blocks === null) return await openpgp.readKeys({ binaryKeys: bytes });
    return (await Promise.all(blocks.map((armoredKeys) => openpgp.readKeys({ armoredKeys })))).flat();
  } catch (cause) {
    throw invalid(
      file,
      'not a file of public PGP keys',
      'ask the receiver for a public key: gpg --armor --export',
      cause,
    );
  }
}

async function assertUsable(openpgp: typeof OpenPgp, key: OpenPgp.Key, file: string): Promise<ShownKey> {
  const fingerprint = key.getFingerprint().toUpperCase();
  const shown = `the key ${fingerprint}`;
  if (key.isPrivate())
    throw invalid(
      file,
      'holds a private key, which nobody may give away',
      'ask the receiver for the public key, and for a new pair',
    );
  if (await key.isRevoked()) throw invalid(file, `${shown} was revoked`, 'ask the receiver for a new key');
  const ends = await key.getExpirationTime();
  if (ends instanceof Date && ends.getTime() <= Date.now())
    throw invalid(file, `${shown} ended on ${ends.toISOString().slice(0, 10)}`, 'ask the receiver for a new key');
  let subkey: Awaited<ReturnType<OpenPgp.Key['getEncryptionKey']>>;
  try {
    // Without this it says of a short key that there is none.
    subkey = await key.getEncryptionKey(undefined, undefined, undefined, { ...openpgp.config, minRSABits: 0 });
  } catch (cause) {
    const words = String((cause as Error).message);
    const lacks = /expired/i.test(words)
      ? 'a sub-key for encryption that has not ended'
      : 'a usable sub-key for encryption';
    throw invalid(
      file,
      `${shown} has no ${lacks.replace(/^an? /, '')}`,
      'ask the receiver for a key that can encrypt',
      cause,
    );
  }
  const { bits } = subkey.getAlgorithmInfo() as { bits?: number };
  if (bits !== undefined && bits < 2048)
    throw invalid(file, `${shown} has ${bits} bits, which is too short`, 'ask the receiver for one of 3072 bits');
  const until = await subkeyEnd(key, subkey.getKeyID());
  const first = [ends, until].filter((end): end is Date => end instanceof Date).sort((one, two) => +one - +two)[0];
  return { fingerprint, ends: first };
}

async function subkeyEnd(key: OpenPgp.Key, id: OpenPgp.KeyID): Promise<Date | undefined> {
  const subkey = key.subkeys.find((it) => it.getKeyID().equals(id));
  const end = await subkey?.getExpirationTime();
  return end instanceof Date ? end : undefined;
}

/** The receivers' keys. @throws {CdsyncError} `key_file_invalid`, `key_file_unreadable` */
async function receivers(openpgp: typeof OpenPgp, { pgp }: Encryption) {
  const usableKeys: { key: OpenPgp.Key; shown: ShownKey }[] = [];
  for (const file of pgp) {
    const keys = await keysOf(openpgp, file);
    if (keys.length === 0)
      throw invalid(file, 'holds no key', 'ask the receiver for a public key: gpg --armor --export');
    for (const key of keys) usableKeys.push({ key, shown: await assertUsable(openpgp, key, file) });
  }
  return usableKeys;
}

/** The lines of a check about the keys. */
export async function keyLines(
  encryption: Encryption,
): Promise<{ readonly shown: string; readonly warnings: readonly string[] }> {
  const openpgp = await library();
  const keys = (await receivers(openpgp, encryption)).map(({ shown }) => shown);
  await signingKey(openpgp, encryption);
  const end = ({ ends }: ShownKey) => (ends === undefined ? 'without end' : `until ${ends.toISOString().slice(0, 10)}`);
  const soon = keys.filter(({ ends }) => ends !== undefined && ends.getTime() < Date.now() + warnedDays * dayMs);
  return {
    shown: keys.map((key) => `PGP key ${key.fingerprint} ${end(key)}`).join(', '),
    warnings: soon.map(
      (key) => `PGP key ${key.fingerprint} ends soon: it is good ${end(key)}; ask the receiver for a new one`,
    ),
  };
}

async function signingKey(
  openpgp: typeof OpenPgp,
  { sign, passphrase }: Encryption,
): Promise<OpenPgp.PrivateKey | undefined> {
  if (sign === undefined) return undefined;
  try {
    const privateKey = await openpgp.readPrivateKey({ armoredKey: sign.reveal() });
    const key = privateKey.isDecrypted()
      ? privateKey
      : await openpgp.decryptKey({ privateKey, passphrase: passphrase?.reveal() ?? '' });
    await key.getSigningKey();
    return key;
  } catch (cause) {
    throw new CdsyncError('`encrypt.sign` is not a private PGP key that can sign, or `encrypt.passphrase` is wrong', {
      code: 'key_file_invalid',
      hint: 'gpg --armor --export-secret-keys shows the key; it must not have ended',
      cause,
      causeQuotesValues: true,
    });
  }
}

/** Encrypts, and signs, what passes. */
export async function encrypts(
  encryption: Encryption,
  { name, at }: { readonly name: string; readonly at: number },
): Promise<(source: AsyncIterable<Buffer>) => AsyncIterable<Buffer>> {
  const openpgp = await library();
  const encryptionKeys = (await receivers(openpgp, encryption)).map(({ key }) => key as OpenPgp.PublicKey);
  const signingKeys = await signingKey(openpgp, encryption);
  const config = { aeadProtect: false, preferredCompressionAlgorithm: openpgp.enums.compression.uncompressed };
  // Keys that announce AEAD would get packets that gpg 2.2 cannot read.
  const { data, algorithm } = await openpgp.generateSessionKey({ encryptionKeys, config });
  return async function* (source) {
    const binary = Readable.toWeb(Readable.from(source)) as ReadableStream<Uint8Array>;
    const message = await openpgp.createMessage({
      binary: binary as never,
      filename: name,
      date: new Date(at),
      format: 'binary',
    });
    const options = { message, encryptionKeys, sessionKey: { data, algorithm }, config };
    const signed = signingKeys === undefined ? options : { ...options, signingKeys };
    const stream = encryption.armor
      ? await openpgp.encrypt({ ...signed, format: 'armored' })
      : await openpgp.encrypt({ ...signed, format: 'binary' });
    for await (const chunk of stream as unknown as AsyncIterable<Uint8Array | string>)
      yield Buffer.from(chunk as Uint8Array);
  };
}
