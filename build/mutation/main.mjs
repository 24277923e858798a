// `npm run test:mutation -- FILE… [--steps N] [--every N]`: changes one small thing in a source file at a time, and runs the unit
// tests nearest to the file. Each change that no test notices is printed. Nothing is written.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { mutantsOf } from './mutants.mjs';
import { testsOf } from './tests-of.mjs';

const root = resolve(import.meta.dirname, '..', '..');
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { steps: { type: 'string', default: '0' }, every: { type: 'string', default: '1' } },
});

/** A process that tries mutants of one file. */
class Worker {
  #child;
  #input;

  constructor(input) {
    this.#input = input;
  }

  async #start() {
    const script = join(import.meta.dirname, 'worker.mjs');
    // Its own group, so that a mutant that loops for ever is killed with it.
    this.#child = fork(script, [JSON.stringify(this.#input)], {
      detached: true,
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    await once(this.#child, 'message');
  }

  /** @returns whether a test failed; of a mutant that never ends: `endless` */
  async try(mutant, limitMs) {
    if (this.#child === undefined) await this.#start();
    const { promise, resolve: end } = Promise.withResolvers?.() ?? withResolvers();
    const timer = setTimeout(() => end({ isKilled: true, isEndless: true }), limitMs);
    const answer = (message) => end(message);
    this.#child.once('message', answer);
    this.#child.send(mutant);
    const outcome = await promise;
    clearTimeout(timer);
    this.#child.off('message', answer);
    if (outcome.isEndless) this.close();
    return outcome;
  }

  close() {
    if (this.#child !== undefined) process.kill(-this.#child.pid, 'SIGKILL');
    this.#child = undefined;
  }
}

function withResolvers() {
  let resolvePromise;
  const promise = new Promise((done) => {
    resolvePromise = done;
  });
  return { promise, resolve: resolvePromise };
}

async function tryFile(file) {
  const source = readFileSync(file, 'utf8');
  const tests = testsOf(root, file, Number(values.steps));
  const mutants = mutantsOf(source).filter((_, index) => index % Number(values.every) === 0);
  const name = relative(root, file);
  if (tests.length === 0) return { name, tried: 0, survived: mutants.length, problem: 'no unit test imports it' };
  const worker = new Worker({ root, file, tests });
  let survived = 0;
  try {
    const began = performance.now();
    const { isKilled: isBroken } = await worker.try({ source }, 600_000);
    if (isBroken) return { name, tried: 0, survived: 0, problem: 'its tests fail without any change' };
    const limitMs = 30_000 + 5 * (performance.now() - began);
    for (const mutant of mutants) {
      const { isKilled } = await worker.try(mutant, limitMs);
      if (isKilled) continue;
      survived += 1;
      console.log(
        `${name}:${mutant.line}  ${mutant.from.replaceAll(/\s+/g, ' ').slice(0, 60)}  →  ${mutant.to.slice(0, 60)}`,
      );
    }
  } finally {
    worker.close();
  }
  return { name, tried: mutants.length, survived };
}

if (positionals.length === 0) {
  console.error('name source files: npm run test:mutation -- src/core/quantities.ts');
  process.exitCode = 2;
}
for (const path of positionals) {
  const { name, tried, survived, problem } = await tryFile(resolve(path));
  console.log(`${name}: ${problem ?? `${tried} mutants, ${survived} not noticed`}`);
  if (survived > 0 || problem !== undefined) process.exitCode = 1;
}
