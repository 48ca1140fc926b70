// Runs the compiled tests of one lane under node's own test runner, and fails where that would be
// lenient: when nothing ran, or when a test was skipped or left as a to-do.
//
//   node scripts/test.mjs [LANE] [options] [PART-OF-A-PATH …]     after `tsc`
//
//   --node PATH      another Node to run them on
//   --name PATTERN   only tests whose title matches (then others may be skipped)
//   --kafka VERSION  lane kafka: another release of Kafka, 4.0.0 or later
//   --verbose        each test's line, not only each group's
//
// Only files whose source is still there are run: build/ may hold the output of deleted tests.

import { spawn } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { parseArgs, stripVTControlCharacters } from 'node:util'
import { withClients } from './clients.mjs'
import { withKafka } from './kafka/with-kafka.mjs'

/**
 * Each lane: the folder its tests live in, folders that are lanes of their own, how long one test or file
 * may take and all of them together, and the service around them. A file that hangs (a timer or socket
 * was left behind) is ended and named: by node 20 as a test that timed out, by newer ones when all must end.
 */
const lanes = {
  unit: {
    folder: 'test',
    except: ['test/kafka/', 'test/clients/', 'test/kill/'],
    oneMs: 120_000,
    allMs: 600_000
  },
  kafka: { folder: 'test/kafka', except: [], oneMs: 600_000, allMs: 1_800_000, around: withKafka },
  clients: {
    folder: 'test/clients',
    except: [],
    oneMs: 600_000,
    allMs: 1_200_000,
    around: withClients
  },
  kill: { folder: 'test/kill', except: [], oneMs: 600_000, allMs: 600_000 }
}

/** Files at once. Tests mostly wait for each other's sockets, so two processors feed three well. */
const concurrency = 3

process.chdir(join(import.meta.dirname, '..'))

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    node: { type: 'string', default: process.execPath },
    name: { type: 'string' },
    kafka: { type: 'string' },
    verbose: { type: 'boolean', default: false }
  }
})
const lane = lanes[positionals[0]] ?? lanes.unit
const filters = positionals[0] in lanes ? positionals.slice(1) : positionals

if (options.kafka !== undefined) process.env.KAFKA_VERSION = options.kafka

const files = testFiles(lane, filters)
if (files.length === 0) fail(`no test file matches ${filters.join(' ') || lane.folder}`)
const around = lane.around ?? (run => run({}))
process.exitCode = await around(env => runTests(files, env))

function testFiles({ folder, except }, parts) {
  if (!existsSync(folder)) return []
  return readdirSync(folder, { recursive: true })
    .map(name => join(folder, name))
    .filter(path => path.endsWith('.test.ts') && !except.some(other => path.startsWith(other)))
    .filter(
      path =>
        parts.length === 0 ||
        parts.some(part => path.includes(part.replace(/^build\//, '').replace(/\.js$/, '.ts')))
    )
    .map(path => join('build', path.replace(/\.ts$/, '.js')))
    .sort()
}

async function runTests(paths, env) {
  const child = spawn(
    options.node,
    [
      '--test',
      '--enable-source-maps',
      '--test-reporter=spec',
      `--test-concurrency=${concurrency}`,
      `--test-timeout=${lane.oneMs}`,
      ...(options.name === undefined ? [] : [`--test-name-pattern=${options.name}`]),
      ...paths
    ],
    { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, ...env } }
  )
  // A signal ends the tests, and then us by their exit code, so that `around` still cleans up.
  const stop = () => child.kill('SIGTERM')
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, stop)

  // Of a group of tests that passed, its own line is enough: thousands of golden bytes are one claim.
  const quiet = options.verbose ? /$^/ : /^(\s+✔|\s*▶) /
  const counts = new Map()
  createInterface({ input: child.stdout }).on('line', coloured => {
    const line = stripVTControlCharacters(coloured)
    if (!quiet.test(line)) process.stdout.write(`${coloured}\n`)
    const [, what, count] = /^(?:ℹ|#) (\w+) (\d+)$/.exec(line) ?? []
    if (what !== undefined) counts.set(what, Number(count))
  })
  const deadline = setTimeout(stop, lane.allMs)
  const code = await new Promise(resolve =>
    child.on('close', (exit, signal) => resolve(signal ?? exit))
  )
  clearTimeout(deadline)
  return code === 0 ? complaint(counts) : 1
}

/** The exit code of a run that node calls good: 1 when it proves less than it seems to. */
function complaint(counts) {
  if (!(counts.get('tests') > 0)) return report('no test ran')
  if (options.name !== undefined) return 0
  if (counts.get('skipped') !== 0) return report('a test was skipped: fix it or delete it')
  if (counts.get('todo') !== 0) return report('a test is a to-do: write it or delete it')
  return 0
}

function report(message) {
  process.stderr.write(`test: ${message}\n`)
  return 1
}

function fail(message) {
  process.exit(report(message))
}
