import { expect, it } from 'vitest';
import { grantedOn } from '../../../connectors/mysql/check.js';

it.each<[string[], string[] | undefined]>([
  [
    ['GRANT USAGE ON *.* TO `l`@`%`', 'GRANT SELECT, INSERT ON `cdp`.* TO `l`@`%`'],
    ['USAGE', 'SELECT', 'INSERT'],
  ],
  [['GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION'], ['ALL PRIVILEGES']],
  [['GRANT SELECT ON `cd\\_p`.* TO `l`@`%`', 'GRANT INSERT ON `other`.* TO `l`@`%`'], []],
  [
    ['GRANT SELECT ON `c%`.* TO `l`@`%`', 'GRANT INSERT ON `c_p`.* TO `l`@`%`'],
    ['SELECT', 'INSERT'],
  ],
  [['GRANT SELECT (`id`) ON `cdp`.`members` TO `l`@`%`'], []],
  [['GRANT USAGE ON *.* TO `l`@`%`', 'GRANT `loaders`@`%` TO `l`@`%`'], undefined],
  [
    ["GRANT SELECT, CREATE TEMPORARY TABLES ON `cdp`.* TO `l`@`%` IDENTIFIED BY PASSWORD '*x'"],
    ['SELECT', 'CREATE TEMPORARY TABLES'],
  ],
])('of the grants %j, those on the database cdp are %j', (grants, expected) => {
  const granted = grantedOn('cdp', grants);
  expect(granted && [...granted]).toEqual(expected);
});
