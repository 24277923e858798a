import { type RunState, runStates } from './workflow-run.js';

/** The words of the screen that differ from those of the answers. */
const screenWords: Readonly<Record<string, RunState>> = {
  running: 'in progress',
  cancelled: 'canceled',
  success: 'succeeded',
  'running with failures': 'in progress',
};

/**
 * The state that a filter asks for, in any case of letters (published facts, Management API); undefined if no run is ever
 * in it.
 */
export function stateNamed(word: string): RunState | undefined {
  const plain = word.trim().toLowerCase().replace(/[_-]/g, ' ');
  return screenWords[plain] ?? runStates.find((state) => state === plain);
}
