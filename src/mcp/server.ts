import { once } from 'node:events';
import { asCdsyncError, CdsyncError } from '../core/errors.js';
import { packageVersion } from '../core/package-version.js';
import { z } from '../core/zod.js';
import { vendorLibrary } from '../sdk/errors.js';
import { answerText, errorText } from './bounded-answer.js';
import type { Tool } from './tools.js';

const packageName = '@modelcontextprotocol/sdk';

/** @throws {CdsyncError} `connector_package_missing` */
function loadSdk() {
  return vendorLibrary(packageName, async () => {
    const { Server } = await import('@modelcontextprotocol/sdk/server/index.js');
    const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js');
    const { CallToolRequestSchema, ListToolsRequestSchema } = await import('@modelcontextprotocol/sdk/types.js');
    return { Server, StdioServerTransport, CallToolRequestSchema, ListToolsRequestSchema };
  });
}

function shown({ name, description, arguments: parameters }: Tool) {
  const { $schema: _, ...inputSchema } = z.toJSONSchema(parameters) as { type: 'object'; $schema?: string };
  return { name, description, inputSchema, annotations: { readOnlyHint: true, openWorldHint: false } };
}

function failed(error: unknown) {
  return { isError: true, content: [{ type: 'text' as const, text: errorText(asCdsyncError(error)) }] };
}

/** Why the arguments of a call are refused: their names and kinds, never their values. */
function refusal(tool: Tool, error: z.ZodError): CdsyncError {
  const said = error.issues.map(({ path, message }) => `${path.join('.') || 'arguments'}: ${message}`).join('; ');
  const names = Object.keys((shown(tool).inputSchema as { properties?: object }).properties ?? {});
  return new CdsyncError(`the arguments of ${tool.name} are not valid: ${said}`, {
    code: 'usage',
    hint: names.length === 0 ? `${tool.name} takes no arguments` : `${tool.name} takes: ${names.join(', ')}`,
  });
}

/** Calls a tool. An error is a result too: the model reads it. */
async function call(tools: readonly Tool[], name: string, parameters: unknown, signal: AbortSignal) {
  try {
    const tool = tools.find((tool) => tool.name === name);
    if (tool === undefined) {
      const names = tools.map((tool) => tool.name).join(', ');
      throw new CdsyncError('there is no such tool', { code: 'usage', hint: `the tools: ${names}` });
    }
    const checked = tool.arguments.safeParse(parameters ?? {});
    if (!checked.success) throw refusal(tool, checked.error);
    const result = await tool.call(checked.data, signal);
    return { content: [{ type: 'text' as const, text: answerText(result) }] };
  } catch (error) {
    return failed(error);
  }
}

/**
 * Serves tools by the Model Context Protocol over standard input and output, until the client closes one of them or `signal` aborts.
 * @throws {CdsyncError} `connector_package_missing`; `usage` if a message is larger than the library takes
 */
export async function serveTools(tools: readonly Tool[], signal: AbortSignal): Promise<void> {
  const { Server, StdioServerTransport, CallToolRequestSchema, ListToolsRequestSchema } = await loadSdk();
  const server = new Server({ name: 'cdsync', version: packageVersion() }, { capabilities: { tools: {} } });
  const ending = new AbortController();
  /** Why the transport has ended, if the client did not end it. */
  let fault: Error | undefined;
  server.onerror = (error) => {
    fault = error;
  };
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: tools.map(shown) }));
  server.setRequestHandler(CallToolRequestSchema, ({ params }, extra) =>
    call(tools, params.name, params.arguments, AbortSignal.any([extra.signal, ending.signal])),
  );
  const closed = Promise.race([
    once(process.stdin, 'end'),
    once(process.stdin, 'close'),
    once(signal, 'abort'),
    new Promise<void>((resolve) => {
      server.onclose = resolve;
      // No one reads the results any more.
      process.stdout.once('error', () => resolve());
    }),
  ]);
  await server.connect(new StdioServerTransport());
  await closed;
  ending.abort();
  await server.close();
  // The library ends the connection then, without a response.
  if (/exceeded maximum size/.test(fault?.message ?? ''))
    throw new CdsyncError('a message of the client is larger than the protocol library takes (10 MB)', {
      code: 'usage',
      hint: 'the client sent no line end, or too much text: start it again',
    });
}
