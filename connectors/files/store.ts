/** The text of a file. */
export interface Tagged {
  readonly text: string;
  /** Identifies this version of the text. */
  readonly tag: string;
}

/**
 * A place for files: a folder, or an object store. Paths are relative to its root, with `/`. A write is durable once its
 * promise resolves. Errors are of the kinds that destinations throw.
 */
export interface FileStore {
  /** Its name in messages. */
  readonly place: string;
  /** Whether {@link fetch} makes no copy. */
  readonly isLocal: boolean;
  /** Names of the folders directly below the root. */
  folders(): Promise<readonly string[]>;
  /** Paths of all files below a folder. */
  files(folder: string): Promise<readonly string[]>;
  read(path: string): Promise<Tagged | undefined>;
  /** Writes a new file. @returns false if the file exists already */
  create(path: string, text: string): Promise<boolean>;
  /**
   * Replaces a file as a whole.
   * @param tag the version to replace; undefined if the file must not exist yet
   * @returns false if the file is at another version
   */
  replace(path: string, text: string, tag: string | undefined): Promise<boolean>;
  /** Copies a local file to the place. */
  put(local: string, path: string): Promise<void>;
  /** Its length, and when it was last changed, in milliseconds since 1970; undefined if there is no such file. */
  head(path: string): Promise<{ readonly bytes: number; readonly changedMs: number } | undefined>;
  /** Makes the file readable on this machine. @returns its local path: in place, or of a copy below `folder` */
  fetch(path: string, folder: string): Promise<string>;
  /** Removes files; a missing file is not an error. */
  remove(paths: readonly string[]): Promise<void>;
  close(): void;
}
