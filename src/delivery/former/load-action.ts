import type { DestinationConfig } from '../../config/config.js';
import type { LoadAction } from '../../sdk/former/load.js';
import type { DeliveryPlan } from './delivery-plan.js';

/** What a load does with the rows of a plan. It depends on whether the table is empty. */
export function loadAction(
  plan: DeliveryPlan,
  { mode, deletes }: Pick<DestinationConfig, 'mode' | 'deletes'>,
  isEmpty: boolean,
): LoadAction {
  if (mode === 'append' || plan.type === 'adopt') return { type: 'append' };
  if (plan.type === 'everything' && isEmpty) return { type: 'append' };
  if (mode === 'replace') return { type: 'replace' };
  if (plan.type === 'changes' || mode === 'upsert') return { type: 'merge', absent: 'keep' };
  return { type: 'merge', absent: deletes === 'soft' ? 'mark' : 'delete' };
}
