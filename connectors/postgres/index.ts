import { postgresConnector } from '../../src/sdk/index.js';

/** Loads PostgreSQL by COPY. */
export default postgresConnector({
  name: 'postgres',
  product: 'PostgreSQL',
  erasure: 'dead rows keep it until VACUUM; backups and replicas are yours',
});
