import { createHash, scryptSync } from 'node:crypto';
import { type ColumnRule, ColumnRules, hidesValues, ruleFor, type Selection } from '../columns/column-rules.js';
import { columnPath, type StoredColumn } from '../columns/columns.js';
import type { SaltFingerprint } from '../columns/masked-value.js';
import type { JobConfig, StreamConfig } from '../config/config.js';
import { CdsyncError } from '../core/errors.js';
import type { Secret } from '../core/secret.js';
import type { Database } from '../storage/duckdb.js';

/** Slow on purpose: the fingerprint is published with the snapshot, and must not make it easy to guess the salt. */
function fingerprintOf(salt: string): string {
  return scryptSync(salt, 'cdsync column salt', 8).toString('hex');
}

/** The salts that columns are hashed with. */
export class Salts {
  readonly #known = new Map<string, SaltFingerprint>();

  /** A text that identifies a salt without revealing it. */
  fingerprint(salt: Secret): string {
    const text = salt.reveal();
    let known = this.#known.get(text);
    if (known === undefined) {
      known = { fingerprint: fingerprintOf(text), bytes: Buffer.from(text) };
      this.#known.set(text, known);
    }
    return known.fingerprint;
  }

  /** Lets the database hash with a job's salts. */
  async define(database: Database, { streams }: JobConfig): Promise<void> {
    for (const { columns } of streams) {
      for (const { salt } of Object.values(columns)) if (salt !== undefined) this.fingerprint(salt);
    }
    await database.defineSalts(this.#known.values());
  }
}

type SelectingStream = Pick<StreamConfig, 'columns' | 'select' | 'reads'>;

/** The rules of a stream without the one for all other columns. */
function namedRules({ columns }: Pick<StreamConfig, 'columns'>): Map<string, StreamConfig['columns'][string]> {
  return new Map(Object.entries(columns).filter(([name]) => name !== '*'));
}

/** The columns that a stream keeps by its `select`, or by `"*": { drop: true }`; undefined if it keeps all. */
function selectionOf({ columns, select, reads }: SelectingStream): Selection | undefined {
  if (select === undefined && columns['*'] === undefined) return undefined;
  const names = select ?? [...namedRules({ columns }).keys()];
  const isNamed = new Set(names);
  const isEnvelope = new Set(reads.envelope);
  return {
    names,
    leavesOut: ({ place, field }) => {
      if (place === 'envelope') return !reads.hasContainer && !isEnvelope.has(field) && !isNamed.has(field);
      return !isNamed.has(columnPath({ place, field })) && (isEnvelope.has(field) || !isNamed.has(field));
    },
  };
}

/** The rule of a column as the configuration has it, by the same names as {@link ColumnRules}. */
export function writtenRule(
  config: SelectingStream,
  column: Pick<StoredColumn, 'place' | 'field'>,
): StreamConfig['columns'][string] | undefined {
  return selectionOf(config)?.leavesOut(column) ? { drop: true } : ruleFor(namedRules(config), column);
}

type ColumnTest = (column: Pick<StoredColumn, 'place' | 'field'>) => boolean;

/**
 * The columns whose texts become values if they can be given back: all but the key, columns that decide which records are read
 * again, and those that a rule gives another form. Undefined if the stream keeps texts.
 */
export function textRulesOf(config: StreamConfig): ColumnTest | undefined {
  const { strings, reads } = config;
  if (strings === 'keep') return undefined;
  const kept = new Set([...reads.key, ...(reads.unfinished?.watched ?? [])]);
  return ({ place, field }) => {
    if (place === 'envelope' && kept.has(field)) return false;
    const rule = writtenRule(config, { place, field });
    return !hidesValues(rule) && rule?.type === undefined;
  };
}

/** The column rules of a stream's configuration. @param before columns of the last snapshot */
export function rulesOf(config: StreamConfig, salts: Salts, before: readonly StoredColumn[] | undefined): ColumnRules {
  const { contract } = config;
  const rules = [...namedRules(config)].map(([column, written]): [string, ColumnRule] => {
    const { hash: isHashed, normalize, salt, ...rest } = written;
    const hash = isHashed && salt !== undefined ? { salt: salts.fingerprint(salt), normalize } : undefined;
    const present = Object.entries({ ...rest, hash }).filter(([, value]) => value !== undefined);
    return [column, JSON.parse(JSON.stringify(Object.fromEntries(present))) as ColumnRule];
  });
  const storedColumns = contract.columns === 'discard_value' ? before : undefined;
  return new ColumnRules(new Map(rules), storedColumns, textRulesOf(config), selectionOf(config));
}

/** A digest of all options that decide which rows and values a stream has. */
export function configurationDigest(config: StreamConfig, salts: Salts): string {
  const { source, reads, columns, select, strings, contract } = config;
  const { key, query, filter, definition, partitionBy } = reads;
  const rules = Object.entries(columns).map(([name, { salt, ...rule }]) => [
    name,
    rule,
    salt && salts.fingerprint(salt),
  ]);
  const options = [
    source,
    key,
    query ?? null,
    [...filter],
    definition,
    partitionBy ?? null,
    rules,
    select,
    strings,
    contract,
  ];
  return createHash('sha256').update(JSON.stringify(options)).digest('hex');
}

/** @throws {CdsyncError} `salt_changed` if columns of the last snapshot were hashed with another salt */
export function assertSameSalts(rules: ColumnRules, before: readonly StoredColumn[] | undefined): void {
  const changed = (before ?? []).filter(({ place, field, rule }) => {
    const current = rules.of(place, field)?.hash;
    return rule?.hash !== undefined && current !== undefined && rule.hash.salt !== current.salt;
  });
  if (changed.length === 0) return;
  throw new CdsyncError(`the salt of ${changed.map(columnPath).join(', ')} is not the one of the last snapshot`, {
    code: 'salt_changed',
    hint: 'set the earlier salt; or run with --rekey, which computes every hash again: new hashes match no earlier ones',
  });
}
