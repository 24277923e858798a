/** A text and what tells this version of it from any other. */
export interface Tagged {
  readonly text: string;
  readonly tag: string;
}

/**
 * Where files go: a folder, or an object store. Paths are relative to its root, with `/`. What is written is there for good
 * once the promise resolves. Errors are of the kinds that destinations throw.
 */
export interface FileStore {
  /** For messages. */
  readonly place: string;
  /** Names of the folders directly below the root. */
  folders(): Promise<readonly string[]>;
  /** Paths of all files below a folder. */
  files(folder: string): Promise<readonly string[]>;
  read(path: string): Promise<Tagged | undefined>;
  /** Writes what is not there yet. @returns false where somebody was first */
  create(path: string, text: string): Promise<boolean>;
  /** Writes all of it or nothing. @returns false where the file is not, or no longer, the one that `tag` tells of (none: not there) */
  replace(path: string, text: string, tag: string | undefined): Promise<boolean>;
  /** Brings a local file there. */
  put(local: string, path: string): Promise<void>;
  /** In bytes; undefined where there is no such file. */
  size(path: string): Promise<number | undefined>;
  /** Where the file can be read on this machine: in place, or in a copy below `folder`. */
  fetch(path: string, folder: string): Promise<string>;
  /** Removes files; those that are not there are no error. */
  remove(paths: readonly string[]): Promise<void>;
  close(): void;
}
