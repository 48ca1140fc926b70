/** Brokers in processes of their own, to be killed, each on a directory of its own. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { StartOptions } from '../../src/broker.ts'

export class ChildBroker {
  readonly #dataDir: string
  readonly #options: StartOptions
  #child: ChildProcess
  address = ''

  private constructor(dataDir: string, options: StartOptions) {
    this.#dataDir = dataDir
    this.#options = options
    this.#child = this.#spawn()
  }

  static async start(options: StartOptions = {}): Promise<ChildBroker> {
    const dataDir = await mkdtemp(join(tmpdir(), 'playhead-child-'))
    const broker = new ChildBroker(dataDir, options)
    await broker.#ready()
    return broker
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await exited
  }

  /** On what it left behind, at the address that it had. */
  async restart(): Promise<void> {
    await this.kill()
    this.#child = this.#spawn()
    await this.#ready()
  }

  async end(): Promise<void> {
    await this.kill()
    await rm(this.#dataDir, { recursive: true })
  }

  #spawn(): ChildProcess {
    const script = join(import.meta.dirname, 'child-broker.js')
    const port = Number(this.address.split(':')[1] ?? 0)
    const options = JSON.stringify({ ...this.#options, port })
    return spawn(process.execPath, [script, this.#dataDir, 'os', options], {
      stdio: ['ignore', 'pipe', 'inherit']
    })
  }

  async #ready(): Promise<void> {
    const { stdout } = this.#child
    if (stdout === null) throw new Error('the broker has no output')
    const [chunk] = (await once(stdout, 'data')) as [Buffer]
    this.address = String(chunk).trim()
  }
}
