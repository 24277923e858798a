import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** How the files of a series are made. */
export interface Making {
  readonly compress: 'none' | 'gzip' | 'zip';
  readonly isSealed: boolean;
  /** Whether all values are in quotes. */
  readonly isQuoted: boolean;
}

function isInstalled(program: string): boolean {
  if (spawnSync(program, ['--version']).error === undefined) return true;
  process.stderr.write(`\n*** NOT RUN: files that ${program} reads. It is not installed ***\n\n`);
  return false;
}

const plainLines = `import csv, io, sys
text = io.TextIOWrapper(sys.stdin.buffer, 'utf-8', newline='')
sys.stdout.write(''.join(','.join(row) + '\\n' for row in csv.reader(text)))`;

/** The programs that a partner reads files with. */
export class Readers {
  readonly #folder: string;
  readonly #texts = new Map<string, string>();
  readonly #can = {
    gpg: isInstalled('gpg'),
    unzip: isInstalled('unzip'),
    python3: isInstalled('python3'),
    sha256sum: isInstalled('sha256sum'),
  };

  private constructor(folder: string) {
    this.#folder = folder;
  }

  static async open(): Promise<Readers> {
    const readers = new Readers(await mkdtemp(join(tmpdir(), 'cdsync-readers-')));
    if (!readers.#can.gpg) return readers;
    readers.#gpg([
      '--passphrase',
      '',
      '--quick-generate-key',
      'partner@example.com',
      'future-default',
      'default',
      '1d',
    ]);
    await writeFile(readers.#key, readers.#gpg(['--armor', '--export', 'partner@example.com']));
    return readers;
  }

  async close(): Promise<void> {
    if (this.#can.gpg) execFileSync('gpgconf', ['--homedir', this.#folder, '--kill', 'all']);
    await rm(this.#folder, { recursive: true, force: true });
  }

  get #key(): string {
    return join(this.#folder, 'partner.asc');
  }

  #gpg(words: readonly string[], input?: Buffer): Buffer {
    const stdio = ['pipe', 'pipe', 'ignore'] as ('pipe' | 'ignore')[];
    return execFileSync('gpg', ['--homedir', this.#folder, '--batch', '--quiet', ...words], { stdio, input });
  }

  /** One of the ways to make files, of those that can be read here. */
  making(draw: (below: number) => number): Making {
    const compress = (['none', 'gzip', 'zip', 'none'] as const)[draw(4)] ?? 'none';
    const [isSealed, isQuoted] = [draw(3) === 0, draw(2) === 0];
    return {
      compress: compress === 'zip' && !this.#can.unzip ? 'none' : compress,
      isSealed: isSealed && this.#can.gpg,
      isQuoted: isQuoted && this.#can.python3,
    };
  }

  optionsOf({ compress, isSealed, isQuoted }: Making) {
    return {
      compress,
      ...(isSealed ? { encrypt: { pgp: [this.#key] } } : {}),
      ...(isQuoted ? { csv: { quote: 'all' } } : {}),
    };
  }

  /** The lines of a file, as the programs read them. */
  async text(bytes: Buffer, making: Making): Promise<string> {
    const hash = createHash('sha256').update(bytes).digest('hex');
    const text = this.#texts.get(hash) ?? (await this.#read(bytes, making));
    this.#texts.set(hash, text);
    return text;
  }

  async #read(bytes: Buffer, { compress, isSealed, isQuoted }: Making): Promise<string> {
    let clear = isSealed ? this.#gpg(['--decrypt'], bytes) : bytes;
    if (compress === 'gzip') clear = execFileSync('gunzip', ['-c'], { input: clear });
    if (compress === 'zip') {
      const path = join(this.#folder, 'file.zip');
      await writeFile(path, clear);
      clear = execFileSync('unzip', ['-p', path]);
    }
    if (isQuoted) clear = execFileSync('python3', ['-c', plainLines], { input: clear });
    return String(clear);
  }

  /** @throws if the checksum beside a file is of another one */
  async verify(name: string, bytes: Buffer, checksum: Buffer): Promise<void> {
    if (!this.#can.sha256sum) return;
    const path = join(this.#folder, name);
    await writeFile(path, bytes);
    execFileSync('sha256sum', ['-c', '--status'], { cwd: this.#folder, input: checksum });
    await rm(path);
  }
}
