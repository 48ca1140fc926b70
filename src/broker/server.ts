/** The listener of one broker: takes connections, up to the limits, and ends the silent ones. */
import type { Env, Listener, Socket, SocketHandler, Timer, TlsOptions } from '../base/env.ts'
import { isLoopback } from '../base/loopback.ts'
import type { BrokerCluster } from './cluster.ts'
import { closeMs, connectionCountPerAddress, sweepMs } from './limits.ts'
import { Session } from './session.ts'

/** What an excess connection gets. */
const refused: SocketHandler = { onData: () => {}, onClose: () => {} }

export class Server {
  readonly node: number
  readonly #cluster: BrokerCluster
  readonly #env: Env
  readonly #sessions = new Set<Session>()
  readonly #ofAddress = new Map<string, number>()
  readonly #drained = new Set<() => void>()
  #listener: Listener | undefined
  #sweeping: Timer | undefined

  constructor(node: number, cluster: BrokerCluster) {
    this.node = node
    this.#cluster = cluster
    this.#env = cluster.env
  }

  get listening(): boolean {
    return this.#listener !== undefined
  }

  async listen(
    host: string,
    port: number,
    tls?: TlsOptions
  ): Promise<{ host: string; port: number }> {
    const at = tls === undefined ? { host, port } : { host, port, tls }
    this.#listener = await this.#env.net.listen(at, socket => this.#accept(socket))
    return { host: this.#listener.host, port: this.#listener.port }
  }

  /** Ends every connection, in order or hard; new ones are taken. */
  closeConnections(reset = false): void {
    for (const session of this.#sessions) session.end(reset)
  }

  /** Stops listening, ends every connection, and resolves when all are gone. */
  async close(): Promise<void> {
    const listener = this.#listener
    this.#listener = undefined
    await listener?.close()
    if (this.#sessions.size === 0) return
    for (const session of this.#sessions) session.end()
    const impatient = this.#env.clock.after(closeMs, () => {
      for (const session of this.#sessions) session.end(true)
    })
    await new Promise<void>(resolve => this.#drained.add(resolve))
    impatient.cancel()
  }

  #accept(socket: Socket): SocketHandler {
    const { host } = socket.remote
    const ofAddress = this.#ofAddress.get(host) ?? 0
    if (
      this.#listener === undefined ||
      this.#sessions.size >= this.#cluster.settings.maxConnections ||
      // A whole test suite comes from loopback, and is no attack.
      (ofAddress >= connectionCountPerAddress && !isLoopback(host))
    ) {
      this.#env.log.warn('a connection was refused: too many', { host, connections: ofAddress })
      socket.destroy()
      return refused
    }
    const id = this.#cluster.nextConnectionId()
    const session: Session = new Session(id, socket, this.#cluster, this.node, () =>
      this.#gone(session)
    )
    this.#sessions.add(session)
    this.#ofAddress.set(host, ofAddress + 1)
    this.#sweeping ??= this.#env.clock.after(sweepMs, () => this.#sweep())
    return session
  }

  #gone(session: Session): void {
    this.#sessions.delete(session)
    const left = (this.#ofAddress.get(session.remoteHost) ?? 1) - 1
    if (left === 0) this.#ofAddress.delete(session.remoteHost)
    else this.#ofAddress.set(session.remoteHost, left)
    if (this.#sessions.size > 0) return
    this.#sweeping?.cancel()
    this.#sweeping = undefined
    for (const resolve of this.#drained) resolve()
    this.#drained.clear()
  }

  #sweep(): void {
    this.#sweeping = this.#env.clock.after(sweepMs, () => this.#sweep())
    const now = this.#env.clock.monotonic()
    for (const session of this.#sessions) session.sweep(now)
  }
}
