// Clients that no one here wrote, installed for the lane that tests the broker with them: from npm, PyPI and Go's
// modules, each by a file that says which exactly; and Kafka's own, by the script that also runs Kafka.
//
// Installed beside their agents, once: what is there and agrees with those files is used again.

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

const execute = promisify(execFile)
const agents = join(import.meta.dirname, '..', 'test', 'clients', 'agents')
const built = join(import.meta.dirname, '..', 'build', 'franz-go-agent')
const kafka = join(import.meta.dirname, 'kafka', 'kafka')

/** Calls `run` with the environment that the agents need, and resolves to what it resolves to. */
export async function withClients(run) {
  const startedAt = performance.now()
  const python = join(agents, '.venv', 'bin', 'python')
  await Promise.all([
    once('package-lock.json', 'node_modules', () =>
      command('npm', ['ci', '--no-audit', '--no-fund'])
    ),
    once('requirements.txt', '.venv', async () => {
      await command('python3', ['-m', 'venv', '--clear', '.venv'])
      await command(python, ['-m', 'pip', 'install', '--quiet', '-r', 'requirements.txt'])
    }),
    command('go', ['build', '-C', 'franz-go', '-o', built, '.']),
    // Its first use fetches Kafka's jars.
    command(kafka, ['tool', 'topics', '--version'])
  ])
  process.stdout.write(
    `clients: there in ${((performance.now() - startedAt) / 1000).toFixed(1)} s\n`
  )
  return await run({
    CLIENTS_AGENTS: agents,
    CLIENTS_PYTHON: python,
    CLIENTS_FRANZ_GO: built,
    KAFKA_SCRIPT: kafka
  })
}

/** Installs `folder` unless it was, by a file of just this content. */
async function once(file, folder, install) {
  const mark = join(agents, folder, '.installed-from')
  const wanted = createHash('sha256')
    .update(readFileSync(join(agents, file)))
    .digest('hex')
  if (existsSync(mark) && readFileSync(mark, 'utf8') === wanted) return
  await install()
  writeFileSync(mark, wanted)
}

async function command(program, args) {
  await execute(program, args, { cwd: agents, maxBuffer: 2 ** 26 })
}
