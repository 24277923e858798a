import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { blocksOf } from '../fixtures/recipes.js';
import { shell } from '../fixtures/shell.js';
import { Workspace } from '../fixtures/workspace.js';

const timeout = 240_000;
let space: Workspace;
let env: Record<string, string>;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 300 });
  const { url, tenantId, clientId, clientSecret, controlToken } = space.service;
  env = {
    CDS_BASE_URL: url,
    CDS_TENANT_ID: tenantId,
    CDS_CLIENT_ID: clientId,
    CDS_CLIENT_SECRET: clientSecret,
    CDS_CONTROL_TOKEN: controlToken,
  };
});
afterAll(() => space.close());

/** The blocks of a page that are scripts, below some headings. */
async function scripts(page: string, ...headings: string[]): Promise<string[]> {
  const blocks = (await blocksOf(page)).filter(
    ({ language, heading }) => language === 'sh' && (headings.length === 0 || headings.includes(heading)),
  );
  return blocks.map(({ text }) => text);
}

async function paste(script: string): Promise<string> {
  const { code, stdout, stderr } = await shell(space, `set -e\n${script}`, env);
  expect([script, code, code === 0 ? '' : stderr + stdout]).toEqual([script, 0, '']);
  return stdout;
}

describe('docs/getting-started.md', () => {
  it(
    'looks at a service, writes a configuration, and runs it',
    async () => {
      const blocks = await scripts('getting-started.md');
      const own = (text: string) =>
        text
          .replaceAll('https://cds.example.com', env.CDS_BASE_URL ?? '')
          .replaceAll('/srv/cdsync', `${space.folder}/stored`);
      const [discover = '', asked = '', init = '', run = '', ...others] = blocks.map(own);
      expect(others).toEqual([]);
      expect(await paste(discover)).toContain('index loyalty_members');
      // Without a terminal it asks nothing, and names the missing options.
      expect((await shell(space, asked, env)).code).toBeOneOf([0, 2]);
      const [first = '', second = ''] = init.trim().split('\n');
      await paste(`rm -f cdsync.yaml\n${first}`);
      await paste(`mkdir -p jobs\n${second}`);
      expect(await paste(run)).toMatch(/loyalty_members +ok/);
    },
    timeout,
  );
});

describe('docs/commands.md', () => {
  it(
    'runs several jobs, looks people up, and installs completions',
    async () => {
      const [console = ''] = (await blocksOf('commands.md')).flatMap(({ language, text }) =>
        language === 'console' ? [/^\$ (.*)$/m.exec(text)?.[1] ?? ''] : [],
      );
      expect(console).toMatch(/^cdsync /);
      await paste(`cdsync init my.yaml --yes --index loyalty_members\n${console}`);
      const [lookup = '', completion = ''] = await scripts('commands.md');
      const looked = await shell(space, lookup, env);
      // The page's people are not of this service: the service has none of the 3.
      expect([looked.code, looked.stderr]).toEqual([
        expect.any(Number),
        expect.stringMatching(/no profile|not found|absent/i),
      ]);
      await paste(`mkdir -p ~/.config/fish/completions\n${completion}`);
      expect(await paste('cat ~/.config/fish/completions/cdsync.fish ~/.bashrc')).toContain('complete');
    },
    timeout,
  );
});

describe('docs/columns.md and docs/personal-data.md', () => {
  it(
    'apply a rule, check a contract, and erase a person',
    async () => {
      const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
      await space.configure('own', [members]);
      await paste('mv own.json cdsync.yaml');
      await paste('cdsync run');
      for (const script of await scripts('columns.md', 'When you add a rule', 'Contracts')) await paste(script);
      const [{ id } = {}] = await space.query('own', 'select id from members order by id limit 1');
      const [forget = ''] = await scripts('personal-data.md');
      await paste(`${forget.replaceAll('p-0001', String(id)).replace('cdsync push --all', 'true')}`);
      expect(await space.query('own', `select * from members where id = '${id}'`)).toEqual([]);
    },
    timeout,
  );
});

describe('docs/local-service.md', () => {
  it(
    'changes days, injects faults, and starts as other deployments',
    async () => {
      const [console = ''] = (await blocksOf('local-service.md')).flatMap(
        ({ text }) => /^\$ (curl .*)$/m.exec(text)?.[1] ?? [],
      );
      expect(await paste(`${console} -H 'content-type: application/json' --fail`)).toContain('"days":1');
      const [faults = '', behaviour = ''] = await scripts('local-service.md');
      await paste(faults.replace('curl', "curl --fail -H 'content-type: application/json'"));
      await space.clearFaults();
      // It says where it listens, then runs until it is stopped.
      const started = `exec 3< <(exec ${behaviour.trim()} --port 0); read -r line <&3; kill $!; echo "$line"`;
      expect(await paste(started)).toContain('listens on');
    },
    timeout,
  );
});
