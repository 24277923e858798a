import { storedPath } from '../core/stored-texts.js';
import { z } from '../core/zod.js';
import { stateNewer, stateUnreadable } from './errors.js';

/*
 * Three kinds of objects, below `<prefix>/<job>/`:
 *
 * - **contents** (`objects/…`, `parquet/<stream>/files/…`): named by their checksum, never replaced by other content;
 * - **the state** (`state.json`): names the objects of every file of the job. It is replaced under the condition that it is
 *   the version that was read, so a reader has one whole state, and of two writers one wins;
 * - **the lease** (`work.json`): the process that works on the job, and the checkpoint of an unfinished run.
 */

export const stateKey = 'state.json';
export const workKey = 'work.json';

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const whole = z.int().min(0);
/** The last moment that a date can have. */
const maxTimeMs = 8.64e15;

/** A file in pieces: the objects, with their full lengths, and ranges of them in order. Objects that end with `.z` are deflated. */
export const piecesSchema = z
  .object({
    objects: z.array(z.object({ object: storedPath, bytes: whole })),
    /** Index of the object, first byte, number of bytes. */
    ranges: z.array(z.tuple([whole, whole, whole])),
  })
  .refine(({ objects, ranges }) =>
    ranges.every(([index, from, bytes]) => from + bytes <= (objects[index]?.bytes ?? -1)),
  );

const fileSchema = z
  .object({
    path: storedPath,
    bytes: whole,
    sha256,
    /** The time of its last change: milliseconds since 1970. */
    changed_ms: z.int().min(-maxTimeMs).max(maxTimeMs),
    /** Permissions. */
    mode: z.int().min(0).max(0o777),
    /** Left out if one object has the whole. */
    pieces: piecesSchema.optional(),
  })
  .refine(
    ({ bytes, pieces }) => pieces === undefined || pieces.ranges.reduce((sum, [, , of]) => sum + of, 0) === bytes,
  );

/** The only links of a job: to the published database, and to the newest files of a stream. */
const linkSchema = z.object({
  path: storedPath.regex(/^([^/]+\.duckdb|parquet\/[^/]+\/current)$/),
  link: storedPath,
});

export type ObjectParts = z.infer<typeof piecesSchema>;
/** A file of a job, by its path in the job's folder. */
export type StoredFile = z.infer<typeof fileSchema>;
/** A link between files of a job. */
type StoredLink = z.infer<typeof linkSchema>;
export type Entry = StoredFile | StoredLink;

export function isLink(entry: Entry): entry is StoredLink {
  return 'link' in entry;
}

/** Whether no file is in the place of another, or of its folder. */
function areApart(files: readonly Entry[]): boolean {
  const paths = new Set(files.map(({ path }) => path));
  const isBelowOne = ({ path }: Entry) =>
    path.split('/').some((_, index, names) => index > 0 && paths.has(names.slice(0, index).join('/')));
  return paths.size === files.length && !files.some(isBelowOne);
}

const entries = z.array(z.union([linkSchema, fileSchema])).refine(areApart, 'two files in one place');

const stateSchema = z.object({
  version: z.literal(1),
  job: z.string(),
  /** Counts the states. */
  generation: whole,
  /** Changes with every state, but not with {@link State.fence}. */
  commit: z.string(),
  /** Counts takeovers by another machine: the machine before can no longer replace this object. */
  fence: whole,
  written_at: z.string(),
  written_by: z.string(),
  /** The checksums of the public objects, by key. */
  shown: z.record(storedPath, z.string()),
  /** When unneeded objects were last removed; null: never. */
  collected_at: z.string().nullable(),
  /** Since when objects with erased or hidden values must be removed: ISO 8601; null: there are no such objects. */
  removal_owed: z.string().nullable().default(null),
  files: entries,
});

export type State = z.infer<typeof stateSchema>;

const ownerSchema = z.object({
  id: z.string(),
  host: z.string(),
  boot_id: z.string(),
  /** The space of process ids that `pid` is of; empty if the system has none. */
  pid_space: z.string(),
  pid: z.number(),
  started_at: z.string(),
});

export type Owner = z.infer<typeof ownerSchema>;

const workSchema = z.object({
  version: z.literal(1),
  owner: ownerSchema,
  released: z.boolean(),
  /** Whether the owner has uploaded all of its changes. */
  is_put_back: z.boolean(),
  /** In milliseconds: the owner renews the lease well before this time is over. */
  silence_ms: z.number(),
  /** Counts the renewals. */
  said: z.number(),
  /** `commit` of the state that the files belong to; null: none yet. */
  base: z.string().nullable(),
  /** Files of runs under way, in place of those in the state. */
  files: entries,
});

export type Work = z.infer<typeof workSchema>;

function read<T>(schema: z.ZodType<T>, object: string, text: string): T {
  let plain: unknown;
  try {
    plain = JSON.parse(text);
    return schema.parse(plain);
  } catch (cause) {
    const { version } = (plain ?? {}) as { version?: unknown };
    throw typeof version === 'number' && version > 1 ? stateNewer(object) : stateUnreadable(object, cause);
  }
}

/** @throws {CdsyncError} `state_unreadable`, `storage_newer`; both name `object` */
export function readState(object: string, text: string, job: string): State {
  return read(
    stateSchema.refine((state) => state.job === job, 'of another job'),
    object,
    text,
  );
}

/** @throws {CdsyncError} `state_unreadable`, `storage_newer`; both name `object` */
export function readWork(object: string, text: string): Work {
  return read(workSchema, object, text);
}

/** The object that has the whole content of a file. */
export function objectOf(path: string, sha: string): string {
  const [top, stream, kind] = path.split('/');
  const isRows = top === 'parquet' && (kind === 'snapshot' || kind === 'changes') && path.endsWith('.parquet');
  return isRows ? `parquet/${stream}/files/${sha}.parquet` : `objects/${sha}`;
}

/** How a file is made of objects. */
export function piecesOf({ path, sha256, bytes, pieces }: StoredFile): ObjectParts {
  return pieces ?? { objects: [{ object: objectOf(path, sha256), bytes }], ranges: [[0, 0, bytes]] };
}

/** The objects that files need. */
export function objectsOf(files: readonly Entry[]): string[] {
  return files.flatMap((entry) => {
    if (isLink(entry)) return [];
    return entry.pieces?.objects.map(({ object }) => object) ?? [objectOf(entry.path, entry.sha256)];
  });
}

/** The files of a job in the bucket: those of the state and, if a run is unfinished, its last checkpoint. */
export function filesOf(state: State | undefined, work: Work | undefined): Map<string, Entry> {
  const entries = new Map((state?.files ?? []).map((entry) => [entry.path, entry]));
  if (work === undefined || work.files.length === 0 || work.base !== (state?.commit ?? null)) return entries;
  for (const path of entries.keys()) if (path.startsWith(runsFolder)) entries.delete(path);
  for (const entry of work.files) entries.set(entry.path, entry);
  return entries;
}

/** The folder of runs that have not ended, which checkpoints are of. */
export const runsFolder = '.cdsync/runs/';
