/** The form of `next_token` on the last page. Deployments use all three. */
export type EndForm = 'absent' | 'empty' | 'null';

const endings: Readonly<Record<EndForm, string>> = {
  absent: '',
  empty: ',"next_token":""',
  null: ',"next_token":null',
};

/** The start of a page's envelope (specification, section 2.5). */
export const opening = '{"data":[';

/** The rest of the envelope, after the records. A null token ends the list; a null total is left out. */
export function closing(token: string | null, end: EndForm, total: number | null): string {
  const next = token === null ? endings[end] : `,"next_token":"${token}"`;
  return `]${next}${total === null ? '' : `,"total":${total}`}}`;
}
