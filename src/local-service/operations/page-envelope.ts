/** How the end of a list is told: all three forms have been seen. */
export type EndForm = 'absent' | 'empty' | 'null';

const endings: Readonly<Record<EndForm, string>> = {
  absent: '',
  empty: ',"next_token":""',
  null: ',"next_token":null',
};

/** What begins the envelope of a page (specification, section 2.5). */
export const opening = '{"data":[';

/** What closes it behind the records; null stands for the end of the list, and for a total that was not asked for. */
export function closing(token: string | null, end: EndForm, total: number | null): string {
  const next = token === null ? endings[end] : `,"next_token":"${token}"`;
  return `]${next}${total === null ? '' : `,"total":${total}`}}`;
}
