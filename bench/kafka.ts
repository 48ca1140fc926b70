/**
 * Playhead beside the other clients of Node, on one Apache Kafka that is started for it, and with `--embedded` beside
 * itself on the embedded broker: clients `playhead@embedded` then. Prints tables of medians. The options are those of
 * bench/compare/run.mjs:
 *
 *   npm run bench -- kafka [--clients playhead,kafka-ts] [--cases consume-100B] [--rounds 5] [--node PATH]
 *                          [--embedded] [--installed] [--list]
 *
 * The peers are installed by bench/compare/package-lock.json, by the Node that runs them (kafka-crab-js is for 24 only),
 * and without their install scripts: native ones that need theirs (node-rdkafka, confluent) are left out, unless somebody
 * builds them there, `npm ci && npm rebuild`, and then says --installed.
 */
import { execFileSync, type StdioOptions, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')
const compare = join(root, 'bench/compare')
const script = join(root, 'scripts/kafka/kafka')
const name = `bench-${process.pid}`

const ownOptions = ['--embedded', '--installed']
const options = process.argv.slice(2).filter(option => !ownOptions.includes(option))
const embedded = process.argv.includes('--embedded')

// Stdout is for the tables.
const stdio: StdioOptions = ['ignore', 2, 2]
execFileSync(process.execPath, ['scripts/bundle.mjs'], { stdio, cwd: root })
if (!process.argv.includes('--installed')) installPeers()

const data = mkdtempSync(join(tmpdir(), 'playhead-bench-'))
const ours = embedded ? await startBroker() : null
try {
  const env = { ...process.env, KAFKA_OWNER: `${process.pid}` }
  const brokers = execFileSync(script, ['up', name, '1', 'free'], { env }).toString().trim()
  const others = ours ? ['--others', `embedded=${ours.address}`] : []
  const { status } = spawnSync(
    process.execPath,
    ['run.mjs', '--brokers', brokers, ...others, ...options],
    { cwd: compare, stdio: 'inherit' }
  )
  process.exitCode = status ?? 1
} finally {
  ours?.stop()
  spawnSync(script, ['down', name])
  rmSync(data, { recursive: true })
}

function installPeers(): void {
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--silent']
  const at = options.indexOf('--node')
  const node = (at < 0 ? undefined : options[at + 1]) ?? process.execPath
  // Of `npm run`: npm's own script, which any Node can run.
  const { npm_execpath: npm } = process.env
  const [command, ...first] = npm === undefined ? ['npm'] : [node, npm]
  execFileSync(command, [...first, ...args], { stdio, cwd: compare })
}

/** As its users start it, with its defaults for a directory. */
async function startBroker(): Promise<{ address: string; stop: () => void }> {
  const args = ['dist/cli.js', 'broker', '--data', data, '--port', '0']
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 2] })
  let printed = ''
  const address = await new Promise<string>((resolve, reject) => {
    child.stdout?.on('data', (chunk: Buffer) => {
      printed += chunk.toString()
      const found = /127\.0\.0\.1:\d+/.exec(printed)
      if (found) resolve(found[0])
    })
    child.on('exit', () => reject(new Error(`the embedded broker ended: ${printed}`)))
  })
  return { address, stop: () => child.kill() }
}
