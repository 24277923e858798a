import { createHmac } from 'node:crypto';
import type { DuckDBConnection } from '@duckdb/node-api';
import {
  hmacBytesFunction,
  type SaltFingerprint,
  saltMacro,
  saltMacroByVariables,
  saltPads,
} from '../columns/masked-value.js';
import { BLOB, DuckDBBlobValue, DuckDBScalarFunction, VARCHAR } from '../sdk/duckdb/node-api.js';

/**
 * Registers HMAC-SHA-256 with a salt as a function of the whole instance. The salt stays in JavaScript: no catalog, setting or log of
 * DuckDB has it, so SQL of users may run beside it.
 */
export async function registerSalt(
  connection: DuckDBConnection,
  { fingerprint, bytes }: SaltFingerprint,
): Promise<void> {
  connection.registerScalarFunction(
    DuckDBScalarFunction.create({
      name: hmacBytesFunction(fingerprint),
      parameterTypes: [BLOB],
      returnType: VARCHAR,
      mainFunction: (_info, input, output) => {
        const values = input.getColumnVector(0);
        for (let row = 0; row < input.rowCount; row += 1) {
          const value = values.getItem(row);
          const isBlob = value instanceof DuckDBBlobValue;
          output.setItem(row, isBlob ? createHmac('sha256', bytes).update(value.bytes).digest('hex') : null);
        }
        output.flush();
      },
    }),
  );
  await connection.run(saltMacro(fingerprint));
}

/**
 * Computes the same in SQL, three times faster, on one connection that runs no SQL of users. The pads are values of this connection
 * alone, and in no statement's text.
 */
export async function useSaltInSql(connection: DuckDBConnection, salt: SaltFingerprint): Promise<void> {
  const { inner, outer } = saltPads(salt.bytes);
  await connection.run(
    'CREATE OR REPLACE TEMP TABLE cdsync_pads AS SELECT $1::BLOB AS inner_pad, $2::BLOB AS outer_pad',
    [new DuckDBBlobValue(inner), new DuckDBBlobValue(outer)],
  );
  for (const statement of saltMacroByVariables(salt.fingerprint)) await connection.run(statement);
  await connection.run('DROP TABLE temp.cdsync_pads');
}
