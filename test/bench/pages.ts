import { cutPage } from '../../src/extract/scan/page-cutter.js';
import type { ServedService } from './process.js';

export function headersFor(service: ServedService): Record<string, string> {
  return { authorization: `Bearer ${service.token}`, 'service-tenant': service.tenant, 'api-version': '2025-07-31' };
}

/** The id of the index that every bench reads: the largest of the local service. */
export async function indexOf(service: ServedService): Promise<string> {
  const response = await fetch(`${service.url}/api/indexes`, { headers: headersFor(service) });
  const { data } = (await response.json()) as { data: { id: string; name: string }[] };
  const id = data.find(({ name }) => name === 'loyalty_members')?.id;
  if (id === undefined) throw new Error('the local service has no index loyalty_members');
  return id;
}

/** Bodies of pages as the local service sends them: that many from the first on, or all if there are fewer. */
export async function readPages(service: ServedService, pageSize: number, pages: number): Promise<Buffer[]> {
  const headers = headersFor(service);
  const list = `${service.url}/api/indexes/${await indexOf(service)}/profiles?limit=${pageSize}`;
  const bodies: Buffer[] = [];
  let token: string | null = '';
  while (token !== null && bodies.length < pages) {
    const next: string = token === '' ? '' : `&next_token=${encodeURIComponent(token)}`;
    const body = Buffer.from(await (await fetch(`${list}${next}`, { headers })).arrayBuffer());
    bodies.push(body);
    token = cutPage(body).nextToken;
  }
  return bodies;
}

/** CPU seconds of this process since `from`, all threads. */
export function cpuSeconds(from: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(from);
  return (user + system) / 1e6;
}

/** CPU seconds of JSON.parse alone: what every figure is compared with, taken in the same run on the same machine. */
export function parseAlone(bodies: readonly Buffer[]): number {
  const began = process.cpuUsage();
  for (const body of bodies) JSON.parse(body.toString('utf8'));
  return cpuSeconds(began);
}
