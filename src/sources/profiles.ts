import { getProfileOperation } from '../api/profile-api.js';
import { verbatim } from '../sdk/option.js';
import { source } from './declaration.js';
import { profileRecords } from './index-profiles.js';
import { ids, queryOfKeys } from './key-options.js';
import { resolveIndex } from './whole-list.js';

/** Some profiles of an index, by id (specification, section 4.5). */
export const profiles = source({
  name: 'profiles',
  description:
    'Single profiles of an index, by id. If the service does not know an id, there is no row; if there was one, it is deleted.',
  options: { index: verbatim({ description: 'Id or name of the index.', example: 'loyalty_members' }), ids },
  // An id that is no longer listed is a delete.
  notDefining: ['ids'],
  group: 'profile',
  ...profileRecords,
  hashesKey: true,
  readOptions: ({ ids: list }) => ({ query: queryOfKeys(list) }),
  open: async ({ index, ids: list }, context) => {
    const { readIds } = await import('./key-list.js');
    const { indexOwner } = await import('./key-owner.js');
    const indexId = await resolveIndex(context, index);
    const wanted = await readIds(context, list);
    return {
      kind: 'keyed',
      asked: { index: indexId, ids: wanted },
      resolved: { index: indexId },
      mayMiss: true,
      owner: indexOwner(indexId),
      requests: wanted.map((id) => ({
        key: id,
        operation: () => getProfileOperation(indexId, id),
        returns: 'record',
        added: {},
        expected: { id },
      })),
    };
  },
});
