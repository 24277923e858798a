/**
 * Gives the memory of an array back to the system: V8 would keep it until it next collects garbage, which it does only while JavaScript
 * allocates. The array is empty from now on. A message that no one can receive takes the memory, and goes with its channel.
 */
export function freeMemory(memory: ArrayBuffer): void {
  const { port1, port2 } = new MessageChannel();
  port1.postMessage(undefined, [memory]);
  port1.close();
  port2.close();
}
