/** Members of a group as processes that can be killed, the topic they read, and the caller's own history. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { appendFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Happened } from '../../../sim/history/events.ts'
import type { RewindResult } from '../../../src/client/admin/rewind-result.ts'
import type { Client } from '../../../src/client/client.ts'
import { type Call, type Line, type Order, readHistory } from './history.ts'

export type TeamOptions = Omit<Order, 'node' | 'inc' | 'file'>

export class Team {
  readonly #options: TeamOptions
  readonly #folder = mkdtempSync(join(tmpdir(), 'playhead-team-'))
  readonly #members = new Map<string, { readonly process: ChildProcess; readonly inc: number }>()
  readonly #files: string[] = []

  constructor(options: TeamOptions) {
    this.#options = options
  }

  /** Starts a member; one that was killed comes back as its next incarnation. */
  start(node: string): void {
    const inc = (this.#members.get(node)?.inc ?? 0) + 1
    const file = join(this.#folder, `${node}-${inc}`)
    appendFileSync(file, '')
    this.#files.push(file)
    const order: Order = { ...this.#options, node, inc, file }
    const program = join(import.meta.dirname, 'member.js')
    const child = spawn(process.execPath, [program, JSON.stringify(order)], {
      stdio: ['ignore', 'inherit', 'inherit']
    })
    this.#members.set(node, { process: child, inc })
  }

  /** SIGKILL, at whatever it is doing. */
  async kill(node: string): Promise<void> {
    await this.#end(node, 'SIGKILL')
  }

  /** SIGSTOP: its connections stay, nothing comes from it. */
  pause(node: string): void {
    this.#members.get(node)?.process.kill('SIGSTOP')
  }

  resume(node: string): void {
    this.#members.get(node)?.process.kill('SIGCONT')
  }

  /** Ends one in order. */
  async leave(node: string): Promise<void> {
    await this.#end(node, 'SIGTERM')
  }

  /** Somebody rewinds the group and is killed (SIGKILL) once the entries are written. Resolves when it is gone. */
  async rewindAndDie(to: Call['to']): Promise<void> {
    const { bootstrap, group } = this.#options
    const call: Call = { bootstrap, group, to }
    const program = join(import.meta.dirname, 'caller.js')
    const child = spawn(process.execPath, [program, JSON.stringify(call)], {
      stdio: ['ignore', 'pipe', 'inherit']
    })
    const exited = new Promise<void>(resolve => child.once('exit', () => resolve()))
    let said = ''
    child.stdout.on('data', (chunk: Buffer) => {
      said += chunk.toString()
      child.kill('SIGKILL')
    })
    await exited
    assert.equal(said, 'written\n')
  }

  /** Another file of the history, for whoever writes one. */
  file(name: string): string {
    const file = join(this.#folder, name)
    if (!this.#files.includes(file)) this.#files.push(file)
    return file
  }

  /** Ends all members in order. */
  async stop(): Promise<void> {
    await Promise.all([...this.#members.keys()].map(node => this.#end(node, 'SIGTERM')))
  }

  async #end(node: string, signal: NodeJS.Signals): Promise<void> {
    const child = this.#members.get(node)?.process
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const exited = new Promise<void>(resolve => child.once('exit', () => resolve()))
    child.kill(signal)
    await exited
  }

  /** Takes down what the test itself does, or does to `node`. */
  write(line: Line, node = 'caller'): void {
    const t = Number(process.hrtime.bigint()) / 1e6
    appendFileSync(this.file('caller'), `${JSON.stringify({ t, node, inc: 1, ...line })}\n`)
  }

  history(): Happened[] {
    return readHistory(this.#files)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#members.keys()].map(node => this.#end(node, 'SIGKILL')))
    rmSync(this.#folder, { recursive: true })
  }
}

/** Writes `count` records to each partition, whose values say where they are. */
export async function fill(
  client: Client,
  topic: string,
  partitions: number,
  count: number
): Promise<void> {
  const producer = client.producer()
  for (let first = 0; first < count; first += 1_000) {
    const records = []
    for (let partition = 0; partition < partitions; partition++) {
      for (let n = first; n < Math.min(count, first + 1_000); n++) {
        records.push({ topic, partition, value: Buffer.from(`${topic}:${partition}@${n} `) })
      }
    }
    await producer.sendMany(records)
  }
  await producer.close()
}

/** Resolves once `condition` holds; rejects when it doesn't within `timeoutMs`, with what it says then. */
export function eventually(
  condition: () => boolean | Promise<boolean>,
  what: string,
  timeoutMs = 30_000
): Promise<void> {
  const deadline = performance.now() + timeoutMs
  return new Promise((resolve, reject) => {
    const look = async (): Promise<void> => {
      if (await condition()) return resolve()
      if (performance.now() > deadline) {
        return reject(new Error(`not within ${timeoutMs} ms: ${what}`))
      }
      setTimeout(() => look().catch(reject), 10)
    }
    look().catch(reject)
  })
}

/** The two lines of a call in a history. */
export function callLine(w: string, group: string, to: Readonly<Record<string, number>>): Line {
  return { k: 'rewind', w, group, to }
}

export function answerLine(
  w: string,
  {
    id,
    partitions
  }: Pick<RewindResult, 'id'> & {
    readonly partitions: readonly Pick<
      RewindResult['partitions'][number],
      'topic' | 'partition' | 'state' | 'to'
    >[]
  }
): Line {
  const of = (state: string) => partitions.filter(p => p.state === state)
  const applied = Object.fromEntries(
    of('applied').map(({ topic, partition, to }) => [`${topic}:${partition}`, to])
  )
  const superseded = of('superseded').map(({ topic, partition }) => `${topic}:${partition}`)
  return { k: 'rewind.ok', w, id, applied, superseded }
}

/** Kafka's own console consumer as a member of the group, until what this returns is called. */
export function consoleConsumer(
  bootstrap: readonly string[],
  topic: string,
  group: string,
  properties: readonly string[] = ['group.protocol=consumer']
): () => Promise<void> {
  const given = properties.flatMap(property => ['--consumer-property', property])
  const at = ['--bootstrap-server', bootstrap.join(','), '--topic', topic, '--group', group]
  const program = process.env['KAFKA_SCRIPT'] ?? 'kafka'
  const child = spawn(program, ['tool', 'console-consumer', ...at, ...given], {
    stdio: ['ignore', 'ignore', 'inherit']
  })
  const exited = new Promise<void>(resolve => child.once('exit', () => resolve()))
  return async () => {
    child.kill('SIGTERM')
    await exited
  }
}
