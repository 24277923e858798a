/** A file of a job that is whole in another place. */
export interface RemoteFile {
  readonly bytes: number;
  readonly sha256: string;
  /** The time of its last change: milliseconds since 1970. */
  readonly changedMs: number;
}

/**
 * Files of a job that are not on this disk, but whole in another place. They belong to the job as if they were there; their
 * folders are. Paths are absolute.
 */
export interface RemoteFiles {
  find(path: string): RemoteFile | undefined;
  /** The names of such files directly in a folder. */
  names(folder: string): readonly string[];
  /** Brings the file to its path, if it is one of these. @throws {CdsyncError} `bucket_unavailable`, `bucket_object_changed` */
  bring(path: string): Promise<void>;
  /** Gives the same content another path as well. @returns false if the file is not one of these */
  share(from: string, to: string): boolean;
  /** The file no longer belongs to the job. */
  drop(path: string): void;
}
