/** Members of a group that are Kafka's own consumers, in one process of Java; see scripts/kafka/Members.java. */
import { type ChildProcess, spawn } from 'node:child_process'
import { appendFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'

export interface JavaOrder {
  /** Unique: its client id, and how it is called in histories. */
  readonly name: string
  readonly bootstrap: readonly string[]
  readonly group: string
  readonly topic: string
  /** For its history. */
  readonly file: string
  /** Of a classic group; undefined: its default. 'KIP-848': the group is one of these. */
  readonly assignor?: keyof typeof javaAssignors | 'KIP-848' | undefined
  /** As Kafka's consumers take them, beside the usual. */
  readonly properties?: Readonly<Record<string, string>>
}

/** Kafka's assignors by the names that groups know them by. */
export const javaAssignors = {
  range: 'RangeAssignor',
  roundrobin: 'RoundRobinAssignor',
  sticky: 'StickyAssignor',
  'cooperative-sticky': 'CooperativeStickyAssignor'
} as const

export class JavaMembers {
  readonly #child: ChildProcess
  readonly #exited: Promise<void>
  readonly #stopped = new Map<string, () => void>()
  #running = new Set<string>()

  constructor() {
    const script = process.env['KAFKA_SCRIPT'] ?? ''
    const program = join(dirname(script), 'Members.java')
    const child = spawn(script, ['java', program], { stdio: ['pipe', 'pipe', 'inherit'] })
    this.#child = child
    // It may be killed while something is written to it.
    child.stdin.on('error', () => {})
    this.#exited = new Promise(resolve => child.once('exit', () => resolve()))
    const lines = createInterface(child.stdout)
    lines.on('line', line => {
      // Kafka's own log is there too.
      if (!line.startsWith('{')) return
      const { stopped } = JSON.parse(line) as { stopped?: string }
      if (stopped !== undefined) this.#stopped.get(stopped)?.()
    })
  }

  get running(): readonly string[] {
    return [...this.#running]
  }

  start({ name, bootstrap, group, topic, file, assignor, properties = {} }: JavaOrder): void {
    appendFileSync(file, '')
    this.#running.add(name)
    this.#tell({
      start: name,
      topic,
      file,
      properties: {
        'bootstrap.servers': bootstrap.join(','),
        'group.id': group,
        'auto.offset.reset': 'earliest',
        'enable.auto.commit': 'false',
        'isolation.level': 'read_committed',
        'reconnect.backoff.max.ms': '500',
        ...protocolOf(assignor),
        ...properties
      }
    })
  }

  /** Leaves in order. */
  async stop(name: string): Promise<void> {
    if (!this.#running.delete(name)) return
    const stopped = new Promise<void>(resolve => this.#stopped.set(name, resolve))
    this.#tell({ stop: name })
    await Promise.race([stopped, this.#exited])
  }

  /** SIGKILL: all of them at once. Returns who they were. */
  async kill(): Promise<readonly string[]> {
    const { running } = this
    this.#running = new Set()
    this.#child.kill('SIGKILL')
    await this.#exited
    return running
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
  }

  #tell(order: object): void {
    this.#child.stdin?.write(`${JSON.stringify(order)}\n`)
  }
}

function protocolOf(assignor: JavaOrder['assignor']): Readonly<Record<string, string>> {
  if (assignor === 'KIP-848') return { 'group.protocol': 'consumer' }
  return {
    'group.protocol': 'classic',
    'heartbeat.interval.ms': '300',
    'session.timeout.ms': '6000',
    ...(assignor && {
      'partition.assignment.strategy': `org.apache.kafka.clients.consumer.${javaAssignors[assignor]}`
    })
  }
}
