import { type DestinationCheck, type S3Store, s3Library } from '../../src/sdk/index.js';
import type { ExportOptions } from './names.js';
import type { FoundFile, PutTask, Store } from './place.js';

/** A prefix of a bucket. An object is there whole, or not at all. */
export class BucketStore implements Store {
  readonly #store: S3Store;
  readonly #headers: Readonly<Record<string, string>>;

  private constructor(store: S3Store, headers: Readonly<Record<string, string>>) {
    this.#store = store;
    this.#headers = headers;
  }

  static async open(
    options: ExportOptions & { readonly url: string },
    rest: { readonly signal: AbortSignal; readonly notice: (line: string) => void },
  ): Promise<BucketStore> {
    const { S3Store } = await s3Library();
    const { acl, sse, kmsKey } = options;
    const headers = {
      ...(acl === undefined ? {} : { ACL: acl }),
      ...(sse === undefined ? {} : { ServerSideEncryption: sse }),
      ...(kmsKey === undefined ? {} : { SSEKMSKeyId: kmsKey }),
    };
    // Partners grant the right to write alone, and load whatever is there: no object finds out what the store can do.
    return new BucketStore(await S3Store.look({ ...options, ...rest }), headers);
  }

  async find(name: string): Promise<FoundFile | undefined | 'unknown'> {
    try {
      const found = await this.#store.look(name);
      return found && { bytes: found.bytes };
    } catch (error) {
      if ((error as { code?: string }).code === 'destination_permission') return 'unknown';
      throw error;
    }
  }

  async put({ local, name, file, replaces }: PutTask): Promise<'put' | 'not_read_back' | 'taken'> {
    const isWritten = await this.#store.putFile(local, name, {
      sha256: file.sha256,
      isNew: !replaces,
      headers: this.#headers,
    });
    if (!isWritten) return 'taken';
    const found = await this.find(name);
    return found !== undefined && found !== 'unknown' && found.bytes === file.bytes ? 'put' : 'not_read_back';
  }

  async remove(name: string): Promise<boolean> {
    if ((await this.find(name)) === undefined) return false;
    await this.#store.remove([name]);
    return true;
  }

  async check(): Promise<DestinationCheck> {
    const untried = 'writing is tested by the first file';
    // Any name will do: without the right to read, the store says so.
    const found = await this.find('cdsync-check');
    return {
      reached: found === 'unknown' ? `${this.#store.place}, which does not let anyone look` : this.#store.place,
      lacks: [],
      untried,
    };
  }

  close(): void {
    this.#store.close();
  }
}
