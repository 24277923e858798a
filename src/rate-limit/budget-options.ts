import { z } from '../core/zod.js';
import { choice, map, option, secret } from '../sdk/option.js';

/** The option `service.budget`: which processes share the limits. */
export const budgetOptions = map({
  shared: option(
    z.union([
      choice(['machine', 'none'], {
        description: 'The processes of this user on this machine, or each process alone.',
        example: 'machine',
      }),
      option(
        map({
          postgres: secret(/^postgres(ql)?:\/\/\S+$/, {
            description:
              'A database that all of them reach: user, password and database. cdsync makes the table `cdsync_budget` in it, if it is missing.',
            example: `\${BUDGET_URL}`,
            allowed: 'a URL that begins with postgres://',
          }),
        }),
        { description: 'All processes, on any machine, that reach one database.' },
      ),
    ]),
    {
      description:
        'Who keeps within `rate_limits` together, of those who use the same address and tenant (or its sandboxes). `machine`: the processes of this user on this machine. A map with `postgres`: all processes, on any machine, that name the same database. `none`: each process has all of the limits.',
      example: 'machine',
      allowed: 'machine, none, or a map: { postgres: URL }',
    },
  ).prefault('machine'),
});

/** Which processes share the limits: those of this user on this machine, none, or all that reach one database. */
export type BudgetOptions = z.output<typeof budgetOptions>;
