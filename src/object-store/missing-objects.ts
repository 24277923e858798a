import type { S3Store } from '../sdk/index.js';
import { type ObjectStore, withRetry } from './objects.js';
import { kindOf, streamRunOf } from './required-files.js';
import { type Entry, isLink, objectOf, objectsOf } from './state.js';

/*
 * Somebody may remove objects from a bucket: a rule of its life cycle, a clean-up, a hand. A run lists what is there before it begins.
 * What this machine has is put again; what can be made from the store is made again; of the database there is a second copy.
 */

/** The lengths of the objects that files need; undefined where only the inflated length is known. */
function lengthsOf(files: Iterable<Entry>): Map<string, number | undefined> {
  const lengths = new Map<string, number | undefined>();
  for (const entry of files) {
    if (isLink(entry)) continue;
    const { path, sha256, bytes, pieces } = entry;
    if (pieces === undefined) lengths.set(objectOf(path, sha256), bytes);
    else for (const { object, bytes } of pieces.objects) lengths.set(object, object.endsWith('.z') ? undefined : bytes);
  }
  return lengths;
}

/** Lists the bucket. @returns which objects are gone or have another length: those that files need, and those that people read */
export async function findMissingObjects(
  { store, contents }: { store: S3Store; contents: ObjectStore },
  { files, shown }: { readonly files: Iterable<Entry>; readonly shown: readonly string[] },
): Promise<Set<string>> {
  const lengths = lengthsOf(files);
  for (const key of shown) lengths.set(key, undefined);
  if (lengths.size === 0) return new Set();
  return withRetry(async () => {
    const lost = new Set(lengths.keys());
    for await (const { path, bytes } of store.listed(contents.key(''))) {
      const object = path.slice(contents.key('').length);
      if ((lengths.get(object) ?? bytes) === bytes) lost.delete(object);
    }
    return lost;
  });
}

/** Files that a run makes again, from the store or from the service. */
function isMadeAnew(path: string): boolean {
  return ['rows', 'published', 'known', 'page', 'parts'].includes(kindOf(path));
}

/** The files, but for those whose content is lost and that are made again: a run under way reads such a stream from its beginning. */
export function withoutLost(
  target: ReadonlyMap<string, Entry>,
  lost: ReadonlySet<string>,
  isHere: (path: string) => boolean,
): Map<string, Entry> {
  const gone = [...target.values()].filter(
    (entry) => objectsOf([entry]).some((object) => lost.has(object)) && isMadeAnew(entry.path) && !isHere(entry.path),
  );
  const readings = new Set(gone.flatMap(({ path }) => (kindOf(path) === 'parts' ? [streamRunOf(path)] : [])));
  const paths = new Set(gone.map(({ path }) => path));
  return new Map([...target].filter(([path]) => !paths.has(path) && !readings.has(streamRunOf(path))));
}
