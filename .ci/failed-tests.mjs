// A reporter of vitest: appends the name of each failed test, or file, to $CDSYNC_CI_FAILED as soon as it is known. A run that is stopped for
// time prints no summary, and its failures count all the same.

import { appendFileSync } from 'node:fs';

const names = process.env.CDSYNC_CI_FAILED;

export default class FailedTests {
  onTestCaseResult(test) {
    if (test.result().state === 'failed') appendFileSync(names, `${test.module.relativeModuleId} > ${test.fullName}\n`);
  }

  onTestModuleEnd(module) {
    if (module.errors().length > 0) appendFileSync(names, `${module.relativeModuleId}\n`);
  }
}
