import { appendFile, mkdir, mkdtemp, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DecisionLog, recordDecisions } from '../../../src/storage/decisions.js';
import { addErasure } from '../../../src/storage/erasures.js';
import { JobLayout } from '../../../src/storage/layout.js';

let layout: JobLayout;
beforeEach(async () => {
  layout = new JobLayout(await mkdtemp(join(tmpdir(), 'cdsync-decisions-')), 'job');
  await mkdir(layout.locks, { recursive: true });
});
afterEach(() => vi.restoreAllMocks());

const forget = (keys: readonly string[], more: object = {}) =>
  recordDecisions(layout, 1_000, (hash) => [
    { action: 'forget', erasure: 1, keys: keys.map((key) => [hash(key)]), streams: [{ name: 'members' }], ...more },
  ]);

const unreadable = expect.objectContaining({ code: 'state_unreadable' }) as unknown;

describe('the log of decisions', () => {
  it('is empty before the first, and says afterwards who decided what, without a key', async () => {
    expect((await DecisionLog.read(layout)).decisions).toEqual([]);
    await forget(['person-1'], { reason: 'asked' });
    const { decisions } = await DecisionLog.read(layout);
    expect(decisions).toMatchObject([{ action: 'forget', reason: 'asked', at: '1970-01-01T00:00:01.000Z' }]);
    expect(decisions[0]?.user).not.toBe('');
    const text = (await readFile(layout.decisions, 'utf8')) + (await readFile(layout.decisionsHead, 'utf8'));
    expect(text).not.toContain('person-1');
    for (const path of [layout.decisions, layout.decisionsHead]) expect((await stat(path)).mode & 0o777).toBe(0o600);
  });

  it('leaves a key out of its streams, or of all, until it is allowed; a later erasure leaves it out again', async () => {
    await forget(['a', 'b']);
    await forget(['c'], { everywhere: true });
    const left = async (stream: string) => {
      const log = await DecisionLog.read(layout);
      return ['a', 'b', 'c'].filter((key) => log.forgotten(stream).includes(log.hash(key)));
    };
    expect([await left('members'), await left('later')]).toEqual([['a', 'b', 'c'], ['c']]);
    const { formsOf } = await DecisionLog.read(layout).then((log) => ({ formsOf: log.formsOf(['a']) }));
    await recordDecisions(layout, 2, () => [{ action: 'allow', keys: formsOf }]);
    expect(await left('members')).toEqual(['b', 'c']);
    await forget(['a']);
    expect(await left('members')).toEqual(['a', 'b', 'c']);
  });

  it('is not blocked for ever by the lock of a killed process, whose clock was ahead', {
    timeout: 30_000,
  }, async () => {
    // Ten seconds pass in a tenth of one.
    const began = Date.now();
    vi.spyOn(performance, 'now').mockImplementation(() => 100 * (Date.now() - began));
    await writeFile(layout.decisionsLock, '');
    const tomorrow = new Date(Date.now() + 86_400_000);
    await utimes(layout.decisionsLock, tomorrow, tomorrow);
    await forget(['a']);
    expect((await DecisionLog.read(layout)).decisions).toHaveLength(1);
  });

  it('is reported if any line or byte of it is lost, altered, moved or repeated', async () => {
    for (const key of ['a', 'b', 'c']) await forget([key]);
    const text = await readFile(layout.decisions, 'utf8');
    const [one, two, three] = text.split('\n') as [string, string, string];
    const others = [
      '',
      `${one}\n`,
      `${one}\n${two}\n`,
      `${two}\n${three}\n`,
      `${two}\n${one}\n${three}\n`,
      `${text}${three}\n`,
      `${one}\n${three}\n`,
      text.replace('"erasure":1', '"erasure":2'),
      text.replace('"line":2', '"line":1'),
    ];
    for (let at = 0; at < text.length; at += 97) others.push(`${text.slice(0, at)}\u0001${text.slice(at + 1)}`);
    for (const other of others) {
      await writeFile(layout.decisions, other);
      await expect(DecisionLog.read(layout), JSON.stringify(other).slice(0, 60)).rejects.toEqual(unreadable);
      await expect(forget(['d'])).rejects.toEqual(unreadable);
    }
    await writeFile(layout.decisions, text);
    expect((await DecisionLog.read(layout)).decisions).toHaveLength(3);
  });

  it('continues after an append that was cut short: a torn line is none, a whole one counts', async () => {
    await forget(['a']);
    const head = await readFile(layout.decisionsHead, 'utf8');
    await forget(['b']);
    await writeFile(layout.decisionsHead, head);
    expect((await DecisionLog.read(layout)).decisions).toHaveLength(2);
    await appendFile(layout.decisions, '{"at":"2026-');
    expect((await DecisionLog.read(layout)).decisions).toHaveLength(2);
    await forget(['c']);
    expect((await DecisionLog.read(layout)).decisions).toHaveLength(3);
  });

  it('has each line once, however many processes append at the same time', async () => {
    await Promise.all(Array.from({ length: 8 }, (_, n) => forget([`k${n}`])));
    expect((await DecisionLog.read(layout)).decisions).toHaveLength(8);
  });

  it('must be there once people were forgotten', async () => {
    await expect(DecisionLog.read(layout, { expected: true })).rejects.toEqual(unreadable);
    // Another decision begins a new log, which does not hide that.
    await recordDecisions(layout, 1, () => [{ action: 'discard', run_id: 'r' }]);
    await expect(DecisionLog.read(layout, { expected: true })).rejects.toEqual(unreadable);
    await addErasure(layout, 'members', ['a'], 5);
    await expect(DecisionLog.read(layout)).rejects.toEqual(unreadable);
  });
});
