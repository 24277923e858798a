import type { S3Store } from '../sdk/index.js';
import { type Contents, patiently } from './contents.js';

/** How long an object stays that nobody needs any more: a reader may still have the manifest that names it. */
export const graceMs = 24 * 3_600_000;

const content = /^(objects\/[0-9a-f]{64}(\.z)?|parquet\/[^/]+\/files\/[0-9a-f]{64}\.parquet)$/;

/** Whether an object can go. @param now by the bucket's clock */
export function isCollectable(
  { object, writtenAt }: { readonly object: string; readonly writtenAt: number },
  {
    needed,
    now,
    graceMs: grace,
  }: { readonly needed: ReadonlySet<string>; readonly now: number; readonly graceMs: number },
): boolean {
  return content.test(object) && !needed.has(object) && now - writtenAt >= grace;
}

/** Removes the objects that no file needs, once they are old enough. Only the one who may work on the job calls it. */
export async function collect(
  { store, contents }: { store: S3Store; contents: Contents },
  needed: ReadonlySet<string>,
  grace: number,
): Promise<void> {
  await patiently(async () => {
    const now = Date.now() + (store.clockAheadMs ?? 0);
    const gone: string[] = [];
    for (const folder of ['objects/', 'parquet/']) {
      for await (const { path, writtenAt } of store.listed(contents.key(folder))) {
        const object = path.slice(contents.key('').length);
        if (isCollectable({ object, writtenAt }, { needed, now, graceMs: grace })) gone.push(path);
      }
    }
    if (gone.length > 0) await store.remove(gone);
  });
}
