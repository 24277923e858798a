import type { Fault, FaultKind } from './fault.js';

const kinds: ReadonlySet<FaultKind> = new Set<FaultKind>([
  'dead_token',
  'repeat_token',
  'loop',
  'duplicate',
  'empty_pages',
  'small_pages',
  'attributes_array',
  'garbage_record',
  'wrong_total',
  'empty',
  'end_form',
]);

/** Whether a fault changes pages of lists. */
export function isPageFault({ kind }: Fault): boolean {
  return kinds.has(kind);
}
