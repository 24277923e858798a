import { formatBytes, formatCount, formatCounted, formatDuration } from '../core/quantities.js';
import type { PushPlanEntry } from '../engine/run/plan-push.js';
import type { PlannedRequests } from '../sdk/planned-requests.js';

const quoted = (names: readonly string[]) => names.map((name) => `"${name}"`).join(', ');

/** The characters of a body that are shown. */
const shownBody = 2000;

function requestLines({ kinds, seconds, first }: PlannedRequests): [string, string][] {
  const counts = kinds.map(({ op, method, requests }) => `${formatCount(requests)} ${method} for ${op}s`);
  const time = seconds === 0 ? '' : `; \`rate\` makes that ${formatDuration(seconds * 1000)} or more`;
  const lines: [string, string][] = counts.length === 0 ? [] : [['requests', `at least ${counts.join(', ')}${time}`]];
  for (const { method, url, headers, body } of first) {
    lines.push(['request', `${method} ${url}`]);
    for (const [name, value] of Object.entries(headers)) lines.push(['', `${name}: ${value}`]);
    const cut = body.length > shownBody ? `… (${formatCount(body.length)} characters)` : '';
    if (body !== '') lines.push(['', body.slice(0, shownBody) + cut]);
  }
  return lines;
}

function details(
  plan: NonNullable<PushPlanEntry['plan']>,
  { action, why }: PushPlanEntry,
  nowMs: number,
): [string, string][] {
  const { there, add, widen, fill, clear, clear_rows, erase, rows, refused } = plan;
  const total = rows.insert + rows.update + rows.delete;
  const lines: [string, string][] = [];
  if (there === null) lines.push(['there', 'nothing']);
  else {
    const age =
      there.delivered_at === null
        ? ''
        : `; loaded ${formatDuration(Math.max(0, nowMs - Date.parse(there.delivered_at)))} ago`;
    const amount =
      there.generation === null ? 'no record' : `generation ${there.generation}, snapshot ${there.sequence}`;
    const held = there.rows === null ? `snapshot ${there.sequence}` : `${amount}, ${formatCounted(there.rows, 'row')}`;
    lines.push(['there', `${held}${age}`]);
  }
  lines.push([action, `${why}${plan.drops ? '; the table is dropped first' : ''}`]);
  if (add.length > 0) lines.push(['add', add.map(({ column, type }) => `${column} ${type}`).join(', ')]);
  if (widen.length > 0) lines.push(['widen', widen.map(({ column, type }) => `${column} to ${type}`).join(', ')]);
  if (fill.length > 0) lines.push(['fill', `${quoted(fill)} in every row`]);
  if (clear.length > 0)
    lines.push(['clear', `${quoted(clear)} in ${formatCounted(clear_rows, 'row')} that the snapshot no longer has`]);
  if (erase > 0) lines.push(['erase', formatCounted(erase, 'key')]);
  for (const file of plan.files ?? [])
    lines.push(['file', `${file.name}, ${formatCounted(file.rows, 'row')}, about ${formatBytes(file.bytes)}`]);
  if (plan.files !== undefined) return lines;
  lines.push([
    'rows',
    `${formatCount(total)} to send (${rows.insert} inserts, ${rows.update} updates, ${rows.delete} deletes)`,
  ]);
  if (plan.requests !== undefined) lines.push(...requestLines(plan.requests));
  for (const { column, reason, values } of refused)
    lines.push(['values', `${formatCount(values)} of "${column}" cannot be held: ${reason}`]);
  return lines;
}

/** The loads of a push, for people. @param nowMs in milliseconds since 1970 */
export function pushPlanLines(entries: readonly PushPlanEntry[], nowMs: number): string[] {
  return entries.flatMap((entry) => {
    const { name, connector, stream, action, plan, error, why } = entry;
    const head = `${stream} -> ${name} (${connector}${plan === null || plan.table === null ? '' : `, ${plan.table}`})`;
    if (error !== null)
      return [
        `${head}: ${action === 'refused' ? 'refused, ' : ''}${error.code}: ${error.message}`,
        ...(error.hint === null ? [] : [`  ${error.hint}`]),
      ];
    if (plan === null) return [`${head}: ${why}`];
    if (action === 'nothing') return [`${head}: nothing to do`];
    return [head, ...details(plan, entry, nowMs).map(([word, text]) => `  ${word.padEnd(9)} ${text}`)];
  });
}
