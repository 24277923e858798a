import { CdsyncError } from '../../core/errors.js';

/** Another delivery has moved the watermark since it was read: the load must leave nothing behind. */
export function watermarkMoved(stream: string): CdsyncError {
  return new CdsyncError(`another delivery has moved the watermark of stream "${stream}" meanwhile`, {
    code: 'watermark_moved',
    hint: 'is the same destination loaded from two places? Nothing of this load was kept',
  });
}
