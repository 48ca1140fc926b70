/** Runs the agents: see agents/README.md for what they are told and what they say. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

export interface Task {
  readonly role: 'produce' | 'consume' | 'transact'
  readonly topic: string
  readonly group?: string
  readonly protocol?: Protocol
  readonly from?: number
  readonly count?: number
  readonly compression?: string
  readonly id?: string
  readonly output?: string
}

export type Protocol = 'classic' | 'consumer'

/** A client that the stories are played with. */
export interface Client {
  readonly name: string
  readonly command: readonly string[]
  readonly protocols: readonly Protocol[]
  readonly codecs: readonly string[]
}

const agents = given('CLIENTS_AGENTS')
const node = (file: string) => [process.execPath, join(agents, file)]

export const clients = {
  kafkajs: {
    name: 'kafkajs',
    command: node('kafkajs.mjs'),
    protocols: ['classic'],
    codecs: ['none', 'gzip']
  },
  platformatic: {
    name: '@platformatic/kafka',
    command: node('platformatic.mjs'),
    protocols: ['classic', 'consumer'],
    codecs: ['none', 'gzip']
  },
  librdkafka: {
    name: 'librdkafka',
    command: [given('CLIENTS_PYTHON'), join(agents, 'librdkafka.py')],
    protocols: ['classic', 'consumer'],
    codecs: ['none', 'gzip', 'snappy', 'lz4', 'zstd']
  },
  franzGo: {
    name: 'franz-go',
    command: [given('CLIENTS_FRANZ_GO')],
    protocols: ['classic', 'consumer'],
    codecs: ['none', 'gzip', 'snappy', 'lz4', 'zstd']
  },
  java: {
    name: 'kafka-clients',
    command: [given('KAFKA_SCRIPT'), 'java', join(agents, 'Agent.java')],
    protocols: ['classic', 'consumer'],
    codecs: ['none', 'gzip', 'snappy', 'lz4', 'zstd']
  }
} as const satisfies Record<string, Client>

/** One agent at work: what it has said so far. */
export class Agent {
  readonly name: string
  readonly acked: string[] = []
  readonly moved: string[] = []
  readonly got: { readonly partition: number; readonly offset: number; readonly value: string }[] =
    []
  assigned: readonly number[] = []
  readonly #child: ChildProcess
  readonly #exited: Promise<number | null>
  #ended = false
  #said = ''
  #heard: () => void = () => {}
  /** Called for each thing that it says. */
  onEvent: () => void = () => {}

  constructor(client: Client, bootstrap: readonly string[], task: Task) {
    this.name = `${client.name} ${JSON.stringify(task)}`
    const [program = '', ...args] = client.command
    const child = spawn(
      program,
      [...args, JSON.stringify({ bootstrap: bootstrap.join(','), ...task })],
      { stdio: 'pipe' }
    )
    this.#child = child
    child.stdin.on('error', () => {})
    createInterface(child.stdout).on('line', line => {
      this.#take(line)
      this.#heard()
      this.onEvent()
    })
    child.stderr.on('data', chunk => {
      this.#said = (this.#said + String(chunk)).slice(-4000)
    })
    this.#exited = new Promise(resolve => {
      child.on('close', code => {
        this.#ended = true
        this.#heard()
        resolve(code)
      })
    })
  }

  get values(): ReadonlySet<string> {
    return new Set(this.got.map(({ value }) => value))
  }

  /** Resolves once it is so; rejects when the agent ends before, or a minute passes. */
  async until(what: string, so: (agent: Agent) => boolean): Promise<void> {
    let late = false
    const timer = setTimeout(() => {
      late = true
      this.#heard()
    }, 120_000)
    try {
      while (!so(this)) {
        if (this.#ended || late)
          throw new Error(this.#complaint(late ? 'no' : 'ended before', what))
        await new Promise<void>(resolve => {
          this.#heard = resolve
        })
      }
    } finally {
      clearTimeout(timer)
    }
  }

  /** Tells it to stop in order, and resolves when it has, without an error. */
  async stop(): Promise<void> {
    this.#child.stdin?.end()
    await this.done()
  }

  /** Resolves when it has ended by itself. */
  async done(): Promise<void> {
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), 120_000)
    const code = await this.#exited
    clearTimeout(timer)
    assert.equal(code, 0, this.#complaint('failed', ''))
  }

  /** As kill -9; for what a story leaves behind. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#exited
  }

  #take(line: string): void {
    if (!line.startsWith('{')) return
    const event = JSON.parse(line) as { [name: string]: unknown }
    const { acked = [], moved = [], got, assigned, ...rest } = event
    this.acked.push(...(acked as string[]))
    this.moved.push(...(moved as string[]))
    if (assigned !== undefined) this.assigned = assigned as number[]
    if (got !== undefined) {
      const [partition, offset, value] = got as [number, number, string]
      this.got.push({ partition, offset, value })
    }
    if (Object.keys(rest).length > 0) this.#said += `${line}\n`
  }

  #complaint(how: string, what: string): string {
    const { acked, moved, got, assigned } = this
    const counts = `acked ${acked.length}, moved ${moved.length}, got ${got.length}`
    return `${this.name} ${how}: ${what}\n${counts}, assigned ${assigned.join(' ')}\n${this.#said}`
  }
}

export function given(variable: string): string {
  const value = process.env[variable]
  if (value === undefined) {
    throw new Error(`${variable} is not set: these tests run by \`npm run test:clients\``)
  }
  return value
}
