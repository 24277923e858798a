import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ServedService } from '../process.js';

function parameter(name: string) {
  return { type: 'RequestOption', inject_into: 'request_parameter', field_name: name };
}

function manifest(service: ServedService, index: string, pageSize: number, version: string) {
  const requester = {
    type: 'HttpRequester',
    url_base: service.url,
    path: `/api/indexes/${index}/profiles`,
    http_method: 'GET',
    authenticator: { type: 'BearerAuthenticator', api_token: "{{ config['token'] }}" },
    request_headers: { 'service-tenant': service.tenant, 'api-version': '2025-07-31' },
  };
  const paginator = {
    type: 'DefaultPaginator',
    page_token_option: parameter('next_token'),
    page_size_option: parameter('limit'),
    pagination_strategy: {
      type: 'CursorPagination',
      page_size: pageSize,
      cursor_value: "{{ response.get('next_token') }}",
      stop_condition: "{{ not response.get('next_token') }}",
    },
  };
  return {
    version,
    type: 'DeclarativeSource',
    check: { type: 'CheckStream', stream_names: ['members'] },
    streams: [
      {
        type: 'DeclarativeStream',
        name: 'members',
        primary_key: ['id'],
        retriever: {
          type: 'SimpleRetriever',
          requester,
          paginator,
          record_selector: { type: 'RecordSelector', extractor: { type: 'DpathExtractor', field_path: ['data'] } },
        },
        schema_loader: { type: 'InlineSchemaLoader', schema: { type: 'object', additionalProperties: true } },
      },
    ],
    spec: { type: 'Spec', connection_specification: { type: 'object', properties: {} } },
  };
}

/** Writes a declarative manifest and a catalog for `source-declarative-manifest`; returns the words of its `read`. */
export async function writeAirbyte(
  folder: string,
  service: ServedService,
  { index, pageSize, version }: { index: string; pageSize: number; version: string },
): Promise<string[]> {
  const config = join(folder, 'airbyte-config.json');
  const catalog = join(folder, 'airbyte-catalog.json');
  const stream = { name: 'members', json_schema: {}, supported_sync_modes: ['full_refresh'] };
  const streams = [{ stream, sync_mode: 'full_refresh', destination_sync_mode: 'overwrite' }];
  const injected = manifest(service, index, pageSize, version);
  await writeFile(config, JSON.stringify({ __injected_declarative_manifest: injected, token: service.token }));
  await writeFile(catalog, JSON.stringify({ streams }));
  return ['read', '--config', config, '--catalog', catalog];
}
