import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import clickhouse from '../../../connectors/clickhouse/index.js';
import { differences } from '../../../src/conformance/compare.js';
import { tableConformance } from '../../../src/conformance/index.js';
import { after, before, delivered, ownless, undelivered } from '../../../src/conformance/rows.js';
import { Subject } from '../../../src/conformance/subject.js';
import { ClickhouseServer, clickhouseIsThere } from '../../fixtures/clickhouse.js';

const server = clickhouseIsThere() ? await ClickhouseServer.start() : undefined;
afterAll(() => server?.stop());

describe.runIf(server)('ClickHouse', () => {
  tableConformance({
    connector: clickhouse,
    ...(server === undefined ? {} : { server: server.address }),
    place: () => (server as ClickhouseServer).place(),
  });
});

describe.runIf(server)('a first load of ClickHouse that is cut short between its rows and its watermark', () => {
  let front: Server;
  /** How many statements that move a watermark are cut off before they reach the server. */
  let cuts = 0;

  beforeAll(async () => {
    front = createServer(async (incoming, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of incoming) chunks.push(chunk as Buffer);
      const body = Buffer.concat(chunks);
      if (body.includes('INSERT INTO `_cdsync_watermarks`') && cuts > 0) {
        cuts -= 1;
        response.destroy();
        return;
      }
      const { method, url: path, headers } = incoming;
      const onward = request({ ...(server as ClickhouseServer).address, method, path, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(response);
      });
      onward.on('error', () => response.destroy());
      onward.end(body);
    });
    await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
  });
  afterAll(() => front.close());

  async function subject(mode: string): Promise<Subject> {
    const place = await (server as ClickhouseServer).place();
    const destination = { mode, ...place.through?.((front.address() as AddressInfo).port) };
    return Subject.open({ connector: clickhouse, place, destination });
  }

  const comments = async (each: Subject) =>
    (server as ClickhouseServer).select(
      `SELECT name, comment FROM system.tables WHERE database = '${each.place.options.database}' ORDER BY name`,
    );
  const plain = [
    { name: '_cdsync_watermarks', comment: '' },
    { name: 'people', comment: '' },
  ];

  it.each(['mirror', 'replace', 'append'])('is repeated by the next delivery, in mode %s', async (mode) => {
    const killed = await subject(mode);
    cuts = Number.POSITIVE_INFINITY;
    expect(undelivered(await killed.run(before)).code).toBe('destination_unavailable');
    expect((await killed.place.rows('people')).length).toBe(95);
    cuts = 0;
    delivered(await killed.push());
    expect(await killed.place.rows('people')).toHaveLength(95);
    if (mode !== 'append') {
      delivered(await killed.run(after));
      expect(differences(await killed.published(), ownless(await killed.place.rows('people')))).toEqual([]);
    }
    expect(await comments(killed)).toEqual(plain);
    await killed.close();
  });

  it('is repeated by the next delivery also into the other table that a stream has got', async () => {
    const moved = await subject('append');
    delivered(await moved.run(before));
    moved.destination = { ...moved.destination, table: 'persons' };
    cuts = Number.POSITIVE_INFINITY;
    expect(undelivered(await moved.run(after)).code).toBe('destination_unavailable');
    expect(await moved.place.rows('persons')).toHaveLength(95);
    cuts = 0;
    delivered(await moved.push());
    expect(await moved.place.rows('persons')).toHaveLength(95);
    expect(await comments(moved)).toEqual([...plain, { name: 'persons', comment: '' }]);
    await moved.close();
  });

  it('is repeated by the same delivery, and keeps the comment of the table', async () => {
    const cut = await subject('append');
    delivered(await cut.run(before));
    const { database } = cut.place.options;
    for (const sql of [
      `TRUNCATE TABLE ${database}.people`,
      `TRUNCATE TABLE ${database}._cdsync_watermarks`,
      `ALTER TABLE ${database}.people MODIFY COMMENT 'people\\'s \\\\ table'`,
    ])
      await server?.query(sql);
    cuts = 1;
    delivered(await cut.run(before));
    expect(await cut.place.rows('people')).toHaveLength(95);
    expect(await comments(cut)).toEqual([plain[0], { name: 'people', comment: "people's \\ table" }]);
    await cut.close();
  });

  it('leaves a table alone whose rows somebody else has put there', async () => {
    const cut = await subject('mirror');
    delivered(await cut.run(before));
    await server?.query(`TRUNCATE TABLE ${cut.place.options.database}._cdsync_watermarks`);
    expect(undelivered(await cut.run(after)).code).toBe('table_not_ours');
    await cut.close();
  });
});
