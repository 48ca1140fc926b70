/** What every command gets: a terminal to print by, the lines of stdin, and the cluster that was named. */
import type { Readable } from 'node:stream'
import { Metadata } from '../protocol/api/metadata.ts'
import { Playhead } from '../index.ts'
import { type AccessOptions, accessOf } from './access.ts'
import { Terminal } from './terminal.ts'

/** How long the cluster may take to give any sign of life. */
const FIRST_ANSWER_MS = 5_000

/** Options that every command takes. */
export interface CommonOptions extends AccessOptions {
  readonly bootstrap: string
  readonly json?: boolean
  readonly verbose?: boolean
}

export class Context {
  readonly terminal: Terminal
  readonly input: Readable
  private readonly interrupted = new AbortController()

  constructor(input: Readable, out: NodeJS.WriteStream, err: NodeJS.WriteStream) {
    this.input = input
    this.terminal = new Terminal(out, err)
  }

  /** Fires at the first Ctrl-C or SIGTERM: end in an orderly way. The second one ends the process. */
  get signal(): AbortSignal {
    return this.interrupted.signal
  }

  interrupt(): void {
    this.interrupted.abort()
  }

  /** Runs `use` with a client of the named cluster, and closes it whatever happens. */
  async withCluster<T>(options: CommonOptions, use: (kafka: Playhead) => Promise<T>): Promise<T> {
    const bootstrap = options.bootstrap.split(',').map(address => address.trim())
    await using kafka = new Playhead({
      bootstrap,
      clientId: 'playhead-cli',
      ...accessOf(options),
      logLevel: options.verbose ? 'debug' : 'error'
    })
    // A wrong address shows at once, and not after the patience that a failing cluster deserves.
    // Not by ApiVersions: that is answered also to who has yet to say who they are.
    const patience = { to: 'any', timeoutMs: FIRST_ANSWER_MS, minVersion: 1 } as const
    await kafka.cluster.request(Metadata, { topics: [] }, patience)
    return await use(kafka)
  }
}
