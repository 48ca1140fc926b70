// Everything that can be known without running the product, in a few seconds.
//
//   npm run check                  all stages
//   npm run check -- lint types    some
//
// Stages run side by side; one that needs the compiled output waits for `types`.

import { spawn } from 'node:child_process'
import { join } from 'node:path'

/** Each stage: what it holds, and the command that holds it. */
const stages = {
  format: { command: 'biome format --colors=off .', fix: 'npx biome format --write .' },
  lint: { command: 'oxlint -c oxlint.config.mjs --type-aware --ignore-pattern test/lint/fixture' },
  types: { command: 'tsc' },
  unused: { command: 'knip --no-progress' },
  lengths: { command: 'node scripts/lengths.mjs' },
  api: { command: 'node scripts/api.mjs', after: 'types', fix: 'npm run api, and review the diff' },
  package: { command: 'node scripts/package.mjs', after: 'types' }
}

process.chdir(join(import.meta.dirname, '..'))

const startedAt = performance.now()
const chosen = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(stages)
const unknown = chosen.filter(name => !Object.hasOwn(stages, name))
if (unknown.length > 0) {
  process.stderr.write(
    `check: no stage ${unknown.join(', ')}; there are ${Object.keys(stages).join(', ')}\n`
  )
  process.exit(2)
}

const running = new Map()
for (const name of chosen) running.set(name, stage(name))
const failures = (await Promise.all(running.values())).filter(result => !result.passed)

for (const { name, output } of failures) {
  const { fix } = stages[name]
  process.stdout.write(`\n── ${name} ──\n${output.trim()}\n${fix ? `To mend: ${fix}\n` : ''}`)
}
const verdict =
  failures.length === 0 ? 'all hold' : `${failures.map(({ name }) => name).join(', ')} failed`
process.stdout.write(`\ncheck: ${verdict}, ${seconds(startedAt)}\n`)
process.exitCode = failures.length === 0 ? 0 : 1

async function stage(name) {
  const { command, after } = stages[name]
  if (running.has(after) && !(await running.get(after)).passed) {
    process.stdout.write(`– ${name.padEnd(8)} not run: ${after} failed\n`)
    return { name, passed: true, output: '' }
  }
  const from = performance.now()
  const { code, output } = await execute(command)
  process.stdout.write(`${code === 0 ? '✔' : '✖'} ${name.padEnd(8)} ${seconds(from)}\n`)
  return { name, passed: code === 0, output }
}

function execute(command) {
  const env = {
    ...process.env,
    PATH: `${join('node_modules', '.bin')}:${process.env.PATH}`,
    NO_COLOR: '1'
  }
  const child = spawn(command, { shell: true, stdio: ['ignore', 'pipe', 'pipe'], env })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => (output += chunk))
  return new Promise(resolve => child.on('close', code => resolve({ code, output })))
}

function seconds(from) {
  return `${((performance.now() - from) / 1000).toFixed(1)} s`
}
