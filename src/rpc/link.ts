/**
 * All connections to one broker, by lane. A broker answers one connection's requests in order, so what may
 * wait long at it (a fetch, joining a group) has a connection of its own, and a heartbeat is never behind it.
 * A connection is opened when something waits for it, and again after a loss; attempts that fail are spaced
 * by a back-off that all lanes share, as it is the broker that is down.
 */
import type { Address, Env, Timer } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'
import { Fifo } from '../base/fifo.ts'
import type { LaneName } from './call.ts'
import { Connection, type ConnectionOptions } from './connection.ts'
import type { Exchange } from './exchange.ts'
import { type Backoff, backoffMs } from './retry.ts'
import type { VersionTable } from './versions.ts'

export interface LinkOptions extends ConnectionOptions {
  readonly reconnectBackoff: Backoff
  /** Requests of one lane that wait for its connection. */
  readonly maxWaiting: number
}

/** What the cluster is told of a broker. */
export interface LinkEvents {
  /** A connection could not be had, or was lost. */
  onTrouble(link: Link, error: PlayheadError): void
}

export class Link {
  /** -1 for one of the bootstrap list, until it turns out to be one of the brokers. */
  node: number
  address: Address
  /** As of the last connection that got ready. */
  versions: VersionTable | null = null
  readonly env: Env
  readonly options: LinkOptions
  readonly #events: LinkEvents
  readonly #lanes = new Map<LaneName, LaneQueue>()
  #failures = 0
  readonly #leaving = new Set<Promise<void>>()
  #notBefore = -Infinity
  /** Whether it ever answered a request. */
  answered = false
  /** Why the last attempt failed. */
  trouble: PlayheadError | null = null

  constructor(env: Env, node: number, address: Address, options: LinkOptions, events: LinkEvents) {
    this.env = env
    this.node = node
    this.address = address
    this.options = options
    this.#events = events
  }

  send(exchange: Exchange, name: LaneName): void {
    this.#lane(name).send(exchange)
  }

  /** Opens a connection for what will be sent in that lane, unless an attempt has just failed. */
  prepare(name: LaneName): void {
    if (!this.backingOff) this.#lane(name).prepare()
  }

  #lane(name: LaneName): LaneQueue {
    let lane = this.#lanes.get(name)
    if (!lane) this.#lanes.set(name, (lane = new LaneQueue(this, name)))
    return lane
  }

  /** Whether some connection is ready. */
  get connected(): boolean {
    for (const lane of this.#lanes.values()) if (lane.connected) return true
    return false
  }

  /** Whether a failure is so recent that no attempt would be made now. */
  get backingOff(): boolean {
    return this.env.clock.monotonic() < this.#notBefore
  }

  /** Whether it failed since it last answered. */
  get troubled(): boolean {
    return this.#failures > 0
  }

  /** Ms until the next attempt may be made. */
  get waitMs(): number {
    return Math.max(0, this.#notBefore - this.env.clock.monotonic())
  }

  /** One of the bootstrap list turned out to be this broker. */
  adopt(node: number): void {
    this.node = node
    for (const lane of this.#lanes.values()) lane.adopt(node)
  }

  /** The broker has moved: what is on its way ends at the old place, what follows goes to the new one. */
  move(address: Address): void {
    if (address.host === this.address.host && address.port === this.address.port) return
    this.address = address
    this.answeredWell()
    this.answered = false
    for (const lane of this.#lanes.values()) lane.renew()
  }

  /** Ends its connections as soon as nothing is on its way on them. */
  endIdle(name?: LaneName): void {
    if (name !== undefined) this.#lanes.get(name)?.end()
    else for (const lane of this.#lanes.values()) lane.end()
  }

  /** No connection, and nothing waits for one. */
  get empty(): boolean {
    return this.#lanes.size === 0 && this.#leaving.size === 0
  }

  /** Resolves when no connection is left, those included that were on their way out before. */
  async close(why: PlayheadError): Promise<void> {
    await Promise.all([...this.#lanes.values()].map(lane => lane.close(why)))
    await Promise.all(this.#leaving)
  }

  /** Told by a lane: a connection has ended its side; its socket goes when the broker has answered that. */
  leaves(connection: Connection): void {
    const { gone } = connection
    this.#leaving.add(gone)
    void gone.then(() => this.#leaving.delete(gone))
  }

  /** Told by a lane. */
  readied(connection: Connection): void {
    this.versions = connection.versions
  }

  answeredWell(): void {
    this.answered = true
    this.#failures = 0
    this.trouble = null
    this.#notBefore = -Infinity
  }

  /** Several lanes failing together are one failure. */
  failed(error: PlayheadError): void {
    const now = this.env.clock.monotonic()
    this.trouble = error
    if (now >= this.#notBefore) {
      this.#failures++
      const { reconnectBackoff } = this.options
      this.#notBefore = now + backoffMs(this.env.random, reconnectBackoff, this.#failures)
    }
    this.#events.onTrouble(this, error)
  }

  lost(error: PlayheadError): void {
    this.#events.onTrouble(this, error)
  }

  emptied(lane: LaneQueue): void {
    if (this.#lanes.get(lane.name) === lane) this.#lanes.delete(lane.name)
  }
}

/** Of a connection that was opened beforehand. */
const unneeded = new PlayheadError('CONNECTION_LOST', 'nobody needs the connection any more')

/** One lane: what waits for its connection, and the connection. `#pump` decides what happens next. */
class LaneQueue {
  readonly name: LaneName
  readonly #link: Link
  readonly #waiting: Fifo<Exchange>
  #connection: Connection | null = null
  /** Connections that only finish what is on its way. */
  readonly #ending = new Set<Connection>()
  #retry: Timer | null = null
  #pumping = false
  #closed = false

  constructor(link: Link, name: LaneName) {
    this.#link = link
    this.name = name
    const what = `requests waiting for broker ${link.node} in lane ${name}`
    this.#waiting = new Fifo(what, link.options.maxWaiting)
  }

  get connected(): boolean {
    return this.#connection?.ready ?? false
  }

  send(exchange: Exchange): void {
    if (this.#waiting.full) this.#dropSettled()
    if (this.#waiting.full) {
      const message = `${this.#waiting.name}: full, the limit is ${this.#waiting.limit}`
      return exchange.fail(new PlayheadError('QUEUE_FULL', message, { retriable: true }))
    }
    this.#waiting.push(exchange)
    if (!this.#connection) exchange.waitsAfter(this.#link.trouble)
    this.#pump()
  }

  prepare(): void {
    if (!this.#connection && !this.#closed) this.#open()
  }

  adopt(node: number): void {
    if (this.#connection) this.#connection.node = node
  }

  /** The next request opens another connection. */
  renew(): void {
    const connection = this.#connection
    if (!connection?.ready) return
    this.#connection = null
    this.#ending.add(connection)
    connection.end()
    this.#pump()
  }

  end(): void {
    if (this.#waiting.length > 0) return
    if (this.#connection?.live === false) void this.#connection.close(unneeded)
    else this.renew()
  }

  close(why: PlayheadError): Promise<unknown> {
    this.#closed = true
    this.#retry?.cancel()
    for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) next.fail(why)
    const connections = [...this.#ending, ...(this.#connection ? [this.#connection] : [])]
    return Promise.all(connections.map(connection => connection.close(why)))
  }

  #pump(): void {
    if (this.#pumping || this.#closed) return
    this.#pumping = true
    while (this.#waiting.peek()?.settled) this.#waiting.shift()
    while (this.#waiting.length > 0 && this.#connection?.hasRoom) {
      const exchange = this.#waiting.shift()
      if (exchange && !exchange.settled) this.#connection.write(exchange)
    }
    this.#pumping = false
    if (this.#waiting.length > 0 && !this.#connection) this.#open()
    else if (this.#waiting.length === 0 && !this.#connection && this.#ending.size === 0) {
      this.#retry?.cancel()
      this.#retry = null
      this.#link.emptied(this)
    }
  }

  #open(): void {
    if (this.#retry) return
    const { env, waitMs } = this.#link
    if (waitMs > 0) {
      this.#retry = env.clock.after(waitMs, () => {
        this.#retry = null
        this.#pump()
      })
      return
    }
    const { node, address, options } = this.#link
    const link = this.#link
    const connection: Connection = new Connection(env, node, address, options, {
      get answeredBefore() {
        return link.answered
      },
      onReady: () => {
        this.#link.readied(connection)
        this.#pump()
      },
      onRoom: () => {
        if (connection.proven) this.#link.answeredWell()
        this.#pump()
      },
      onSilence: () => this.#link.failed(new PlayheadError('TIMED_OUT', connection.place)),
      onClosed: error => this.#lost(connection, error)
    })
    this.#connection = connection
  }

  #lost(connection: Connection, error: PlayheadError | null): void {
    this.#ending.delete(connection)
    if (this.#connection === connection) this.#connection = null
    this.#link.leaves(connection)
    if (this.#closed) return
    if (error) this.#trouble(connection, error)
    this.#pump()
  }

  #trouble(connection: Connection, error: PlayheadError): void {
    if (connection.proven) return this.#link.lost(error)
    // Also when it got ready and was cut before it answered anything: not at once again (invariant C4).
    this.#link.failed(error)
    if (!connection.opened) this.#refuseAll(error)
  }

  /** Whoever waited is told; who comes after waits for the next attempt. */
  #refuseAll(error: PlayheadError): void {
    for (let left = this.#waiting.length; left > 0; left--)
      this.#waiting.shift()?.undelivered(error)
  }

  #dropSettled(): void {
    for (let left = this.#waiting.length; left > 0; left--) {
      const exchange = this.#waiting.shift()
      if (exchange && !exchange.settled) this.#waiting.push(exchange)
    }
  }
}
