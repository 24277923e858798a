import { setTimeout as wait } from 'node:timers/promises';
import type { RunReport } from '../../../src/core/run-report.js';
import { ended } from '../../fixtures/workspace.js';
import { slowReading } from '../baseline.js';
import type { Fault, FaultKind } from '../fault.js';
import type { Lane } from '../lane.js';
import { type Situation, situations } from '../situations.js';
import { Broken, expectEnding } from '../try-fault.js';

/** A tenth of the defaults, and outages of a tenth of those that a run survives: 30 s to 4 minutes. */
const retry = { patience: '30s', max_delay_ms: 3_000 };
const minMs = 3_000;
const maxMs = 24_000;
/** The requests of a whole run are about as many. */
const maxRetries = 100;

/** Ways to be away. Each returns a function that ends its absence. */
const absences: Readonly<Record<string, (lane: Lane) => Promise<() => Promise<void>>>> = {
  503: (lane) => faulty(lane, { kind: 'status', status: 503 }),
  'connections that break': (lane) => faulty(lane, { kind: 'reset' }),
  'requests that hang': (lane) => faulty(lane, { kind: 'hang' }),
  'refused connections': async (lane) => {
    await lane.stopService();
    return () => lane.startService();
  },
};

async function faulty(lane: Lane, fault: object): Promise<() => Promise<void>> {
  await lane.control('faults', fault);
  return async () => {
    await lane.askControl('faults', { method: 'DELETE' });
  };
}

async function successes(lane: Lane): Promise<number> {
  const stats = (await (await lane.askControl('stats')).json()) as { readonly statuses: Record<string, number> };
  return stats.statuses[200] ?? 0;
}

function outage(kind: string, number: number): Fault {
  const situation = situations[number % situations.length] ?? 'daily';
  return {
    name: `${situation}: ${kind} (${number})`,
    situation,
    strike: async (lane, random) => {
      await lane.configure({ hasRules: situation === 'rules', retry });
      await lane.control('faults', slowReading);
      const before = await successes(lane);
      const child = await lane.start();
      const end = ended(child);
      // Before its first success, a run waits only 20 s for a connection: its address may be wrong.
      const isRunning = () => child.exitCode === null && child.signalCode === null;
      while (isRunning() && (await successes(lane)) === before) await wait(50);
      await Promise.race([wait(random() * 1_500), end]);
      const struck = isRunning();
      const comeBack = await absences[kind]?.(lane);
      await Promise.race([wait(minMs + random() * (maxMs - minMs)), end]);
      await comeBack?.();
      const { code, stdout, stderr } = expectEnding(await end);
      if (code !== 0) throw new Broken(`the outage ended the run with ${code}: ${stderr}`);
      const { jobs } = JSON.parse(stdout) as RunReport;
      const retries = jobs.flatMap(({ streams }) => streams).reduce((sum, stream) => sum + stream.retries, 0);
      if (retries > maxRetries) throw new Broken(`${retries} requests were sent again`);
      return struck;
    },
  };
}

/** The service is away for a time that a run must survive, with few requests. */
export const outages: FaultKind = {
  name: 'outages',
  faults: () =>
    Object.keys(absences).flatMap((kind) => Array.from({ length: 10 }, (_, number) => outage(kind, number))),
  most: 40,
};

/** Requests that never get a response, or a slow one, and the streams that may fail because of that. */
const silences: Readonly<Record<string, { readonly fault: object; readonly fails: readonly string[] }>> = {
  'a filtered list that never responds': {
    fault: { kind: 'hang', match: 'filter' },
    fails: ['members', 'vip_profiles', 'tiers'],
  },
  'one profile that never responds': { fault: { kind: 'hang', match: '/profiles/col-1/' }, fails: ['vip_profiles'] },
  'a list of members that never responds': {
    fault: { kind: 'hang', match: '/segments/' },
    fails: ['vip', 'vip_profiles'],
  },
  'filtered lists that are slow': { fault: { kind: 'slow', match: 'filter', delay_ms: 1_000 }, fails: [] },
};

function silence(name: string, situation: Situation): Fault {
  const { fault = {}, fails = [] } = silences[name] ?? {};
  return {
    name: `${situation}: ${name}`,
    situation,
    strike: async (lane) => {
      await lane.control('faults', fault);
      const { code, stdout, stderr } = expectEnding(await lane.run());
      const { jobs } = JSON.parse(stdout) as RunReport;
      const failed = jobs.flatMap(({ streams }) => streams.filter(({ status }) => status === 'failed'));
      const others = failed.filter((stream) => !fails.includes(stream.name));
      if (others.length > 0)
        throw new Broken(`${others.map((stream) => stream.name).join(', ')} failed too: ${stderr}`);
      return fails.length === 0 ? code === 0 : failed.length > 0;
    },
  };
}

/** Single addresses that never respond: they fail their streams, and no others. */
export const silentUrls: FaultKind = {
  name: 'addresses that never respond',
  faults: () => Object.keys(silences).flatMap((name) => situations.map((situation) => silence(name, situation))),
  most: 20,
};
