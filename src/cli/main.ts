#!/usr/bin/env -S node --
import { writeSync } from 'node:fs';

// Nothing of cdsync is imported here: an older Node fails to load the rest, with a page of its code.
const oldest = { major: 20, minor: 19 };
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < oldest.major || (major === oldest.major && minor < oldest.minor)) {
  const needed = `cdsync needs Node ${oldest.major}.${oldest.minor} or later`;
  writeSync(2, `${needed}, and this is Node ${process.versions.node}: install a newer one\n`);
  process.exitCode = 2;
} else {
  let hasFolder = true;
  try {
    process.cwd();
  } catch {
    // Modules ask for the working directory while they load, and some may be loaded later.
    hasFolder = false;
    process.chdir('/');
  }
  const { runProgram } = await import('./program.js');
  await runProgram({ hasFolder });
}
