// Files stay under 400 lines and functions under 60, blank lines and comments aside. What was longer
// when this came is in lengths.json, and may only shrink: a baseline that is no longer needed fails too.
//
//   node scripts/lengths.mjs            compares
//   node scripts/lengths.mjs --shrink   writes down what has become shorter
//
// Functions count in the product and the simulator; a test's story may take the room it needs.

import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

process.chdir(join(import.meta.dirname, '..'))

const limits = { file: 400, function: 60 }
const baseline = JSON.parse(readFileSync('scripts/lengths.json', 'utf8'))
const now = new Map([
  ...measure('max-lines', limits.file),
  ...measure('max-lines-per-function', limits.function)
])

const complaints = []
const shrunk = {}
for (const [what, lines] of now) {
  const allowed = baseline[what]
  if (allowed !== undefined) shrunk[what] = Math.min(allowed, lines)
  const limit = allowed ?? (what.includes(' ') ? limits.function : limits.file)
  if (lines > limit) complaints.push(`${what}: ${lines} lines, at most ${limit}. Split it by idea.`)
  else if (lines < limit)
    complaints.push(
      `${what}: ${lines} lines, no longer ${limit}: node scripts/lengths.mjs --shrink`
    )
}
for (const what of Object.keys(baseline)) {
  if (!now.has(what))
    complaints.push(`${what} is short enough now: node scripts/lengths.mjs --shrink`)
}

if (process.argv[2] === '--shrink') {
  writeFileSync('scripts/lengths.json', `${JSON.stringify(shrunk, null, 2)}\n`)
} else if (complaints.length > 0) {
  process.stdout.write(`${complaints.join('\n')}\n`)
  process.exitCode = 1
}

/** `path` or `path function` of everything longer than the limit, with its lines. */
function measure(rule, max) {
  const folders = rule === 'max-lines' ? ['src', 'sim', 'test', 'scripts', 'bench'] : ['src', 'sim']
  const config = {
    categories: { correctness: 'off' },
    rules: { [rule]: ['error', { max, skipBlankLines: true, skipComments: true }] }
  }
  const configPath = join('build', `.${rule}.json`)
  mkdirSync('build', { recursive: true })
  writeFileSync(configPath, JSON.stringify(config))
  const paths = folders.filter(folder => existsSync(folder))
  const oxlint = join('node_modules', '.bin', 'oxlint')
  const { stdout } = spawnSync(
    oxlint,
    ['-c', configPath, '-f', 'json', '--ignore-pattern', 'test/lint/fixture', ...paths],
    {
      encoding: 'utf8'
    }
  )
  return JSON.parse(stdout).diagnostics.map(({ filename, message }) => {
    const name = /`(.+)`/.exec(message)?.[1] ?? '=>'
    const lines = Number(/\((\d+)\)/.exec(message)?.[1])
    return [rule === 'max-lines' ? filename : `${filename} ${name}`, lines]
  })
}
