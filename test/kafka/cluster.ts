/**
 * The real Kafka that the tests in this folder run against. `npm run test:kafka` starts one broker for
 * all of them: use topics and groups of your own there, and leave the broker alone. A test that breaks
 * brokers starts a cluster of its own, which ends with the test process at the latest.
 */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const execute = promisify(execFile)

/** Of a tool: a test that makes it print more has lost its way. */
const mostOutput = 64 * 1024 * 1024

export interface OwnClusterOptions {
  /** Default 1. */
  readonly brokers?: number
  /** Lines for each broker's server.properties: `{ 'group.max.size': '2' }`. */
  readonly extra?: Readonly<Record<string, string>>
  /** Adds a listener with PLAIN and SCRAM; see `saslBootstrap`. Default false. */
  readonly sasl?: boolean
  /** A folder with keystore.pem and truststore.pem: adds listeners with TLS, and OAUTHBEARER to those with SASL. */
  readonly tls?: string
}

/** A cluster: its address, and Kafka's own tools pointed at it. */
export class KafkaCluster {
  readonly name: string
  readonly bootstrap: readonly string[]

  constructor(name: string, bootstrap: string) {
    this.name = name
    this.bootstrap = bootstrap.split(',')
  }

  /** Which Kafka this is, as '4.4.0'. */
  get release(): string {
    return process.env['KAFKA_VERSION'] ?? '4.4.0'
  }

  /** Runs `kafka-NAME.sh` against this cluster; resolves to what it printed, rejects when it fails. */
  async tool(name: string, ...args: string[]): Promise<string> {
    return await script('tool', name, '--bootstrap-server', this.bootstrap.join(','), ...args)
  }

  /** A topic or group name that nobody else has. */
  uniqueName(what: string): string {
    return `${what}-${randomBytes(5).toString('hex')}`
  }
}

/** A cluster that one test started, and may break. Brokers are numbered from 0. */
export class OwnCluster extends KafkaCluster {
  /** Addresses of the listener with SASL (user alice, password alice-secret). */
  get saslBootstrap(): readonly string[] {
    return this.#listener(1)
  }

  /** The listener with TLS, which wants a certificate of its clients. */
  get tlsBootstrap(): readonly string[] {
    return this.#listener(3)
  }

  /** The one with SASL over TLS. */
  get saslTlsBootstrap(): readonly string[] {
    return this.#listener(4)
  }

  #listener(number: number): readonly string[] {
    return this.bootstrap.map(address => {
      const [host, port] = address.split(':')
      return `${host}:${Number(port) + number * this.bootstrap.length}`
    })
  }

  /** SIGKILL: its port refuses connections once this has resolved. */
  async kill(broker: number): Promise<void> {
    await script('kill', this.name, String(broker))
  }

  /** Starts a killed broker; resolves once it listens. */
  async start(broker: number): Promise<void> {
    await script('start', this.name, String(broker))
  }

  /** SIGSTOP: connections stay, answers don't come. */
  async pause(broker: number): Promise<void> {
    await script('pause', this.name, String(broker))
  }

  async resume(broker: number): Promise<void> {
    await script('resume', this.name, String(broker))
  }

  /** Ends the cluster and deletes its data. */
  async down(): Promise<void> {
    await script('down', this.name)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.down()
  }
}

/** The broker that all tests share. */
class SharedCluster extends KafkaCluster {
  /** Starts a cluster for one test, on free ports, in some five seconds. */
  async startOwn(options: OwnClusterOptions = {}): Promise<OwnCluster> {
    const { brokers = 1, extra = {}, sasl = false, tls = '' } = options
    const name = `own-${process.pid}-${randomBytes(3).toString('hex')}`
    const up = ['up', name, String(brokers), 'free']
    const { stdout } = await execute(given('KAFKA_SCRIPT'), up, {
      env: {
        KAFKA_HEAP: '400m',
        ...process.env,
        KAFKA_OWNER: String(process.pid),
        KAFKA_SASL: sasl ? '1' : '',
        KAFKA_TLS: tls,
        KAFKA_EXTRA: Object.entries(extra)
          .map(([key, value]) => `${key}=${value}`)
          .join('\n')
      }
    })
    return new OwnCluster(name, stdout.trim())
  }
}

export const kafka = new SharedCluster(given('KAFKA_NAME'), given('KAFKA_BOOTSTRAP'))

/** Runs a program of `scripts/kafka/` beside Kafka's own classes; resolves to what it printed. */
export async function java(file: string, args: readonly string[], input: string): Promise<string> {
  const path = join(dirname(given('KAFKA_SCRIPT')), file)
  const running = execute(given('KAFKA_SCRIPT'), ['java', path, ...args], { maxBuffer: mostOutput })
  running.child.stdin?.end(input)
  return (await running).stdout
}

/** Runs `kafka-NAME.sh` against whatever its arguments say. */
export async function kafkaTool(name: string, ...args: string[]): Promise<string> {
  return await script('tool', name, ...args)
}

/** The same, ended when `signal` fires: resolves to what it had printed by then. */
export async function kafkaToolUntil(
  signal: AbortSignal,
  name: string,
  ...args: string[]
): Promise<string> {
  const path = given('KAFKA_SCRIPT')
  try {
    const running = execute(path, ['tool', name, ...args], { signal, maxBuffer: mostOutput })
    return (await running).stdout
  } catch (error) {
    if (!signal.aborted) throw error
    return (error as { readonly stdout: string }).stdout
  }
}

async function script(...args: string[]): Promise<string> {
  return (await execute(given('KAFKA_SCRIPT'), args, { maxBuffer: mostOutput })).stdout
}

function given(variable: string): string {
  const value = process.env[variable]
  if (value === undefined) {
    throw new Error(`${variable} is not set: these tests run by \`npm run test:kafka\``)
  }
  return value
}
