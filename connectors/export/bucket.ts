import { CdsyncError, type DestinationCheck, objectStore, reachedStore } from '../../src/sdk/index.js';
import type { ExportOptions } from './names.js';
import type { FoundFile, PutTask, Store } from './place.js';

type ObjectStore = Awaited<ReturnType<typeof objectStore>>;

/** A prefix of a bucket, or of a container. An object is there whole, or not at all. */
export class BucketStore implements Store {
  readonly #store: ObjectStore;
  readonly #headers: Readonly<Record<string, string>>;

  private constructor(store: ObjectStore, headers: Readonly<Record<string, string>>) {
    this.#store = store;
    this.#headers = headers;
  }

  static async open(
    options: ExportOptions & { readonly url: string },
    rest: { readonly signal: AbortSignal; readonly notice: (line: string) => void },
  ): Promise<BucketStore> {
    const { acl, sse, kmsKey } = options;
    const headers = {
      ...(acl === undefined ? {} : { ACL: acl }),
      ...(sse === undefined ? {} : { ServerSideEncryption: sse }),
      ...(kmsKey === undefined ? {} : { SSEKMSKeyId: kmsKey }),
    };
    // Partners grant the right to write alone, and load whatever is there: no test object finds out the store's abilities.
    return new BucketStore(await objectStore({ ...options, ...rest }), headers);
  }

  async find(name: string): Promise<FoundFile | undefined | 'unknown'> {
    try {
      const head = await this.#store.head(name);
      return head && { bytes: head.bytes, md5: head.md5 };
    } catch (error) {
      if ((error as { code?: string }).code === 'destination_permission') return 'unknown';
      throw error;
    }
  }

  async put({ local, name, file, replaces, refused }: PutTask): Promise<'put' | 'not_read_back' | 'taken'> {
    const condition = { sha256: file.sha256, md5: file.md5, isNew: !replaces, headers: this.#headers };
    const isWritten = await this.#store.putFile(local, name, condition).catch(async (error: unknown) => {
      // A store that says no has written nothing.
      if (error instanceof CdsyncError && error.kind !== 'retryable') await refused();
      throw error;
    });
    if (!isWritten) return 'taken';
    const existingFile = await this.find(name);
    const isSame =
      existingFile !== 'unknown' && existingFile?.bytes === file.bytes && (existingFile.md5 ?? file.md5) === file.md5;
    return isSame ? 'put' : 'not_read_back';
  }

  async remove(name: string): Promise<boolean> {
    if ((await this.find(name)) === undefined) return false;
    await this.#store.remove([name]);
    return true;
  }

  async check(): Promise<DestinationCheck> {
    const untried = 'writing is tested by the first file';
    const place = reachedStore(this.#store);
    // Any name will do: without the right to read, the store says so.
    const existingFile = await this.find('cdsync-check');
    return {
      reached: existingFile === 'unknown' ? `${place}, which does not let anyone look` : place,
      lacks: [],
      untried,
    };
  }

  close(): void {
    this.#store.close();
  }
}
