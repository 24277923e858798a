import { z } from 'zod';
import type { StoredShape } from './column-shape.js';
import type { ColumnField, StoredColumn } from './columns.js';

const shapeSchema: z.ZodType<StoredShape> = z.lazy(() =>
  z.object({ k: z.number(), e: shapeSchema.optional(), f: z.array(z.tuple([z.string(), shapeSchema])).optional() }),
) as z.ZodType<StoredShape>;

/** Columns as journals, stores and manifests keep them. */
export const columnsSchema = z.array(
  z.object({
    place: z.enum(['envelope', 'attribute']),
    field: z.string(),
    name: z.string(),
    shape: shapeSchema,
    declared: z.string().optional(),
    former: z.string().optional(),
    text: z.string().optional(),
    treatment: z
      .object({
        hash: z.object({ salt: z.string(), normalize: z.enum(['email', 'phone']).optional() }).optional(),
        mask: z.enum(['last4', 'email', 'all']).optional(),
        cast: z.string().optional(),
      })
      .optional(),
    untracked: z.literal(true).optional(),
  }),
) as unknown as z.ZodType<StoredColumn[]>;

/** Columns by place and field alone. */
export const columnFieldsSchema: z.ZodType<ColumnField[]> = z.array(
  z.object({ place: z.enum(['envelope', 'attribute']), field: z.string() }),
);
