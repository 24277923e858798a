import { afterAll, beforeAll, expect } from 'vitest';
import { canary, canaryEmail, LeakWatch } from '../fixtures/canaries.js';
import { Receiver } from '../fixtures/webhook-server.js';
import { WorkflowService } from '../fixtures/workflow-service.js';
import { type Ended, Workspace } from '../fixtures/workspace.js';

export type Row = Record<string, unknown>;

export const timeout = 600_000;
export const secrets = {
  SALT: canary('salt-of-columns'),
  HOOK: canary('hook-token'),
  SIGNING: canary('signing-secret'),
  PASSWORD: canary('pass"word'),
  AUTHORIZATION: canary('authorization'),
};

export const people = (count: number, more: (n: number) => Row = () => ({})): Row[] =>
  Array.from({ length: count }, (_, n) => ({
    id: `r${n}`,
    index_id: 'people',
    attributes: {
      email: canaryEmail(`p${n}`),
      name: `${canary('name')} ${n}`,
      phone: canary(`phone-${n}`),
      tag: canary('filter'),
      town: canary(`town-${n % 2}`),
      score: n,
      ...more(n),
    },
  }));

export const filtered = {
  name: 'filtered',
  source: 'index_profiles',
  index: 'people',
  filter: { tag: canary('filter') },
};
export const whole = { name: 'whole', source: 'index_profiles', index: 'people' };

const ways = [['--verbose'], ['--json', '--verbose', '--log-format', 'json']] as const;

export const isData = (file: string) =>
  /\.(parquet|keys|duckdb|wal|tmp)$/.test(file) || /rejects|\/staging\//.test(file);

/** A service, and commands whose output is searched for canaries. `space` and its like are there from the first test on. */
export function canaryCommands() {
  let space: Workspace;
  let watch: LeakWatch;
  let receiver: Receiver;
  let workflows: WorkflowService;
  beforeAll(async () => {
    space = await Workspace.open({ profiles: 200 });
    watch = new LeakWatch([space.service.token, space.service.clientSecret]);
    receiver = await Receiver.open();
    workflows = await WorkflowService.open(space.service.url);
  });
  afterAll(async () => {
    await Promise.all([receiver.close(), workflows.close()]);
    await space.close();
  });

  const serve = (records: readonly unknown[]) =>
    space.control('profiles', { index: 'people', filterable: ['tag', 'town'], records });

  /** Runs a command in each of its output forms, which must all end with this code, and searches all that it says. */
  async function said(words: readonly string[], code: number, env: Record<string, string> = {}): Promise<Ended> {
    let last: Ended | undefined;
    for (const way of ways) {
      last = await space.cdsync([...words, ...way], { ...secrets, ...env });
      const shown = `cdsync ${words.join(' ')} ${way.join(' ')}`.replaceAll(/kanarie/gi, '…');
      watch.lookAt(shown, last);
      expect([shown, last.code, last.code === code ? '' : last.stderr + last.stdout]).toEqual([shown, code, '']);
    }
    return last as Ended;
  }

  /** Runs a command once, in one form: for what cannot be done twice. */
  async function once(words: readonly string[], code: number): Promise<Ended> {
    const result = await space.cdsync([...words, '--verbose'], secrets);
    watch.lookAt(`cdsync ${words.join(' ')}`.replaceAll(/kanarie/gi, '…'), result);
    expect([words.join(' '), result.code, result.code === code ? '' : result.stderr]).toEqual([
      words.join(' '),
      code,
      '',
    ]);
    return result;
  }

  async function during(fault: Row, work: () => Promise<unknown>): Promise<void> {
    await space.control('faults', fault);
    await work();
    await space.clearFaults();
  }

  /** Expects that no text searched since the last call has a canary or a secret. */
  function nothingLeaked(): void {
    expect(watch.drain()).toEqual([]);
  }

  return {
    said,
    once,
    during,
    serve,
    nothingLeaked,
    get space() {
      return space;
    },
    get watch() {
      return watch;
    },
    get receiver() {
      return receiver;
    },
    get workflows() {
      return workflows;
    },
  };
}
