import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Writes a configuration of one job with one stream, which reads the largest index of the local service. */
export async function writeConfig(
  folder: string,
  name: string,
  stream: Record<string, unknown>,
  service: Record<string, unknown> = {},
  job: Record<string, unknown> = {},
  resources: Record<string, unknown> = {},
) {
  const config = {
    version: 1,
    service: {
      base_url: '${CDS_BASE_URL}',
      tenant_id: '${CDS_TENANT_ID}',
      auth: { client_id: '${CDS_CLIENT_ID}', client_secret: '${CDS_CLIENT_SECRET}' },
      ...service,
    },
    storage: join(folder, name),
    resources,
    defaults: { strings: 'infer' },
    jobs: {
      bench: { streams: [{ name: 'members', source: 'index_profiles', index: 'loyalty_members', ...stream }], ...job },
    },
  };
  const path = join(folder, `${name}.json`);
  await writeFile(path, JSON.stringify(config));
  return path;
}
