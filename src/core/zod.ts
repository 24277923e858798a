import { createRequire } from 'node:module';
import type { z as Zod } from 'zod';

/**
 * zod, which checks all that cdsync reads. It is required and not imported: it has 95 files, two thirds of them messages in other languages,
 * and Node needs twice as long to import a file as to require it.
 */
export const z = createRequire(import.meta.url)('zod').z as typeof Zod;

/** The types of zod that cdsync names. */
export declare namespace z {
  type infer<T> = Zod.infer<T>;
  type input<T> = Zod.input<T>;
  type output<T> = Zod.output<T>;
  type ZodArray = Zod.ZodArray;
  type ZodDiscriminatedUnion = Zod.ZodDiscriminatedUnion;
  type ZodError = Zod.ZodError;
  type ZodLiteral<T extends string = string> = Zod.ZodLiteral<T>;
  type ZodObject<
    S extends core.$ZodShape = core.$ZodShape,
    C extends core.$ZodObjectConfig = core.$strip,
  > = Zod.ZodObject<S, C>;
  type ZodRecord = Zod.ZodRecord;
  type ZodType<T = unknown> = Zod.ZodType<T>;
  type ZodUnion = Zod.ZodUnion;
  namespace core {
    type $strict = Zod.core.$strict;
    type $strip = Zod.core.$strip;
    type $ZodLooseShape = Zod.core.$ZodLooseShape;
    type $ZodObjectConfig = Zod.core.$ZodObjectConfig;
    type $ZodShape = Zod.core.$ZodShape;
    type $ZodType = Zod.core.$ZodType;
  }
}
