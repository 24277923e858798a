/** How rows of a query can be printed. */
export const rowFormats = ['table', 'csv', 'json', 'markdown'] as const;
export type RowFormat = (typeof rowFormats)[number];
