/** The embedded broker as its users run it: `playhead broker`, a process of its own that may be killed. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const main = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url))

export class EmbeddedProcess {
  readonly #dir = mkdtempSync(join(tmpdir(), 'playhead-clients-'))
  readonly #brokers: number
  #port = 0
  #child: ChildProcess | undefined
  bootstrap: readonly string[] = []
  /** What it logged. */
  log = ''

  private constructor(brokers: number) {
    this.#brokers = brokers
  }

  static async start(brokers: number): Promise<EmbeddedProcess> {
    const broker = new EmbeddedProcess(brokers)
    broker.#port = await freePorts(brokers)
    await broker.restart()
    return broker
  }

  /** SIGKILL, as its machine would do for want of memory. */
  async kill(): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (child === undefined) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }

  /** Starts it on what it left behind, at the ports it had. */
  async restart(): Promise<void> {
    await this.kill()
    const args = ['broker', '--json', '--port', `${this.#port}`, '--brokers', `${this.#brokers}`]
    const child = spawn(process.execPath, [main, ...args, '--data', this.#dir], {
      stdio: ['ignore', 'pipe', 'pipe']
    })
    this.#child = child
    child.stderr.on('data', chunk => {
      this.log += String(chunk)
    })
    const ended = once(child, 'exit').then(() => assert.fail(`the broker ended: ${this.log}`))
    ended.catch(() => {})
    const [line] = (await Promise.race([once(createInterface(child.stdout), 'line'), ended])) as [
      string
    ]
    this.bootstrap = (JSON.parse(line) as { bootstrap: string[] }).bootstrap
  }

  async close(): Promise<void> {
    await this.kill()
    rmSync(this.#dir, { recursive: true, force: true })
  }
}

/** The first of `count` ports that nobody listens at; below those that systems give out. */
async function freePorts(count: number): Promise<number> {
  for (;;) {
    const first = 21_000 + Math.floor(Math.random() * 10_000)
    const all = Array.from({ length: count }, (_, index) => isFree(first + index))
    if ((await Promise.all(all)).every(Boolean)) return first
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
