import { isUtf8 } from 'node:buffer';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { emitted, scanners } from '../../fixtures/scanners.js';

describe('A scanner whose input is not valid Unicode', () => {
  it('replaces bytes that are not UTF-8, and says so', () => {
    const body = Buffer.concat([
      Buffer.from('{"id":"a","attributes":{"s":"x'),
      Buffer.from([0xff, 0xfe]),
      Buffer.from('y"}}'),
    ]);
    for (const { scanner } of scanners()) {
      const page = scanner.scan(body, 0, body.length);
      expect(page.replaced).toBe(1);
      expect(JSON.parse(emitted(page)).s).toBe('x\ufffd\ufffdy');
    }
  });

  it('replaces them as a decoder of text does, whatever else the record has', () => {
    const texts = ['a', '\ufffd', '😀', '\\ud83d', '\\ude00', '\\ud83d\\ude00', '\\\\', '\\\\ud83d'].map((text) =>
      Buffer.from(text),
    );
    const bytes = [[0xff], [0xe2, 0x82], [0xed, 0xa0, 0x80]].map((each) => Buffer.from(each));
    const values = fc
      .array(fc.constantFrom(...texts, ...bytes), { maxLength: 5 })
      .map((pieces) => Buffer.concat(pieces));
    const read = (value: Buffer) => JSON.parse(`"${new TextDecoder().decode(value)}"`) as string;
    fc.assert(
      fc.property(values, values, (s, t) => {
        const body = Buffer.concat([
          Buffer.from('{"id":"a","attributes":{"s":"'),
          s,
          Buffer.from('","t":"'),
          t,
          Buffer.from('"}}'),
        ]);
        const isReplaced = !isUtf8(body) || !read(s).isWellFormed() || !read(t).isWellFormed();
        for (const { scanner } of scanners()) {
          const page = scanner.scan(body, 0, body.length);
          expect(JSON.parse(emitted(page))).toMatchObject({ s: read(s).toWellFormed(), t: read(t).toWellFormed() });
          expect(page.replaced).toBe(isReplaced ? 1 : 0);
        }
      }),
      { numRuns: 1000 },
    );
  });

  it('counts the records with bytes that are not UTF-8, not the pages', () => {
    const bad = (id: string) => [
      Buffer.from(`{"id":"${id}","attributes":{"s":"`),
      Buffer.from([0xe2, 0x82]),
      Buffer.from('"}}'),
    ];
    const body = Buffer.concat([...bad('a'), Buffer.from(',{"id":"b","attributes":{"s":"\ufffd"}},'), ...bad('c')]);
    for (const { scanner } of scanners()) {
      const page = scanner.scan(body, 0, body.length);
      expect([page.records, page.replaced]).toEqual([3, 2]);
      expect(JSON.parse(`[${emitted(page)}]`).map(({ s }: { s: string }) => s)).toEqual(['\ufffd', '\ufffd', '\ufffd']);
    }
  });

  it('rejects a key that is not Unicode, so that two of them never become one', () => {
    const piece = fc.oneof(
      fc.constantFrom('a', '\ufffd', '😀', '\\ud800', '\\udc00', '\\ud83d\\ude00').map((text) => Buffer.from(text)),
      fc
        .constantFrom([0xff], [0xfe], [0xe2, 0x82], [0xed, 0xa0, 0x80], [0xf0, 0x9f, 0x98])
        .map((bytes) => Buffer.from(bytes)),
    );
    const ids = fc.array(
      fc.array(piece, { minLength: 1, maxLength: 4 }).map((pieces) => Buffer.concat(pieces)),
      {
        minLength: 1,
        maxLength: 8,
      },
    );
    const record = (id: Buffer) => Buffer.concat([Buffer.from('{"id":"'), id, Buffer.from('","attributes":{"n":1}}')]);
    /** The key by another reader; undefined if it is not Unicode. */
    const keyOf = (id: Buffer): string | undefined => {
      try {
        const text = JSON.parse(`"${new TextDecoder('utf-8', { fatal: true }).decode(id)}"`) as string;
        return text.isWellFormed() ? text : undefined;
      } catch {
        return undefined;
      }
    };
    fc.assert(
      fc.property(ids, (input) => {
        const records = input.flatMap((id, index) => (index === 0 ? [record(id)] : [Buffer.from(','), record(id)]));
        const body = Buffer.concat(records);
        const wanted = input.map(keyOf);
        for (const { scanner } of scanners()) {
          const page = scanner.scan(body, 0, body.length);
          const kept = JSON.parse(`[${emitted(page)}]`) as { id: string }[];
          expect(kept.map(({ id }) => id)).toEqual(wanted.filter((key) => key !== undefined));
          expect(page.rejects.map(({ position, key, reason, column }) => [position, key, reason, column])).toEqual(
            wanted.flatMap((key, position) => (key === undefined ? [[position, null, 'key_not_unicode', 'id']] : [])),
          );
        }
      }),
      { numRuns: 500 },
    );
  });
});
