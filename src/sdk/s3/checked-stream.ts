import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { pipeline, type Readable, Transform } from 'node:stream';
import { fileChanged } from './s3-errors.js';

/** The bytes of a file. The stream fails at its end if their checksum is another. */
export function checkedStream(local: string, sha256: string): Readable {
  const hash = createHash('sha256');
  const checked = new Transform({
    transform(chunk, _, done) {
      hash.update(chunk);
      done(null, chunk);
    },
    flush(done) {
      done(hash.digest('hex') === sha256 ? null : fileChanged(local));
    },
  });
  return pipeline(createReadStream(local), checked, () => undefined);
}
