import { expect, it } from 'vitest';
import { profilesPageOperation } from '../../../src/api/profile-api.js';
import type { ReadTask } from '../../../src/extract/page-chain.js';
import { partitionLabel } from '../../../src/extract/partition.js';
import { TaskRunner } from '../../../src/extract/task-runner.js';
import type { Source } from '../../../src/sources/source.js';
import { firstCursor } from '../../../src/storage/journal.js';
import { type Reply, scriptedService, serviceOptions, testClient } from '../api/scripted-service.js';

const countries = ['AT', 'CH', 'DE', 'FR', 'IT', 'NL'];

/** Responds 500 for the partition DE, and else with an empty page. */
const poisoned: Reply = (response, { url }) => {
  response.statusCode = url.searchParams.get('filter[country]') === 'DE' ? 500 : 200;
  response.end(JSON.stringify({ data: [], message: 'broken' }));
};

async function runnerOf(reply: Reply) {
  const service = await scriptedService(reply);
  const { client, abort, clock, meter } = testClient(serviceOptions(service.baseUrl));
  const source = {
    kind: 'list',
    added: {},
    page: ({ token, limit, filter }) => profilesPageOperation({ indexId: 'i', nextToken: token, limit, filter }),
  } as Partial<Source> as Source;
  const done = new Set<string>();
  const country = ({ partition }: ReadTask) => (partition.kind === 'value' ? partition.value : '');
  const runner = new TaskRunner({
    source,
    client,
    clock,
    signal: abort.signal,
    meter,
    atOnce: client.concurrency('profile'),
    known: { skipped: new Set(), undetailed: new Set() },
    notice: () => undefined,
    showsValues: false,
    labelOf: ({ partition }) => partitionLabel(partition, { attribute: 'country', hides: () => false }),
    sinkOf: (task) => ({
      take: async () => {
        done.add(country(task));
        return { records: 0, hasNew: false };
      },
      restart: async () => undefined,
    }),
  });
  const tasks = countries.map(
    (value, ordinal): ReadTask => ({
      partition: { kind: 'value', value },
      ordinal,
      filter: [['country', value]],
      pageSize: 25,
      distrustsTokens: false,
      start: firstCursor,
    }),
  );
  return { runner, tasks, done, country };
}

it('A partition that always fails is named, by the runs after the first one too', async () => {
  const { runner, tasks, done, country } = await runnerOf(poisoned);
  const words = /^partition country=DE: .*failed with 500/;
  await expect(runner.run(tasks)).rejects.toThrow(words);
  expect([...done].sort()).toEqual(countries.filter((value) => value !== 'DE'));
  // All others are read: now no request succeeds, and the service seems to be away.
  const resumed = tasks.map((task) =>
    done.has(country(task)) ? { ...task, start: { ...firstCursor, done: true } } : task,
  );
  for (let run = 2; run < 4; run += 1)
    await expect(runner.run(resumed)).rejects.toThrow(
      /^partition country=DE: the Profile API has answered only with errors/,
    );
});

it('An outage before any partition was read names none of them', async () => {
  const { runner, tasks } = await runnerOf({ status: 503 });
  await expect(runner.run(tasks)).rejects.toThrow(/^the Profile API has answered only with errors/);
});

it('A partition whose paging runs in a circle is named', async () => {
  const circle: Reply = (response, { url }) => {
    const isCircle = url.searchParams.get('filter[country]') === 'FR';
    response.end(JSON.stringify({ data: [], next_token: isCircle ? 'again' : '' }));
  };
  const { runner, tasks } = await runnerOf(circle);
  await expect(runner.run(tasks)).rejects.toMatchObject({
    code: 'page_loop',
    message: expect.stringMatching(/^partition country=FR: the service returned the same page token twice/),
  });
});
