/**
 * The Net port in memory, between named nodes, under any clock: with a virtual one and a seed, every run is
 * the same. A node's name is its host name; 127.0.0.1 and localhost are the node itself. The rules are those
 * of TCP as tcp.ts gives them (test/net/contract.ts runs against both), and a `Wire` decides about time.
 *
 * TLS is not played: both sides only must agree on whether they speak it.
 */

import { assert } from '../base/assert.ts'
import type {
  Address,
  Clock,
  ListenAddress,
  Listener,
  Net,
  Random,
  Socket,
  SocketHandler
} from '../base/env.ts'
import { connectFailure, listenFailure } from './failure.ts'
import { MemorySocket } from './memory-socket.ts'
import { Pipe, type Stalled } from './pipe.ts'
import { fairWire, type Link, type Wire } from './wire.ts'

/** Ports that `listen` chooses for 0, and those of dialling sockets: the range Linux has for them. */
const firstFreePort = 32_768
const lastPort = 65_535

export interface MemoryNetworkOptions {
  readonly clock: Clock
  readonly random: Random
  /** Default: `fairWire(random)`. */
  readonly wire?: Wire
}

interface Door {
  readonly tls: boolean
  /** Only the node itself reaches it. */
  readonly loopback: boolean
  readonly accept: (socket: Socket) => SocketHandler
}

export class MemoryNetwork {
  readonly #clock: Clock
  readonly #wire: Wire
  /** By node, then port. A name is a node once it was asked for by `node`. */
  readonly #doors = new Map<string, Map<number, Door>>()
  readonly #stalled = new Set<Stalled>()
  #connections = 0
  #nextPort = firstFreePort

  constructor(options: MemoryNetworkOptions) {
    this.#clock = options.clock
    this.#wire = options.wire ?? fairWire(options.random)
  }

  /** The network as the node `name` sees it. */
  node(name: string): Net {
    assert(!isLoopback(name) && !isWildcard(name), `'${name}' is no name of a node`)
    if (!this.#doors.has(name)) this.#doors.set(name, new Map())
    return {
      connect: (to, handler) => this.#connect(name, to, handler),
      listen: async (at, accept) => this.#listen(name, at, accept)
    }
  }

  /** The wire holds something no more: asks it again about all that it held. */
  retry(): void {
    const stalled = [...this.#stalled]
    this.#stalled.clear()
    for (const one of stalled) one.pump()
  }

  #listen(name: string, at: ListenAddress, accept: Door['accept']): Listener {
    const fail = (code: string) => listenFailure(at.host, at.port, systemError(code))
    const doors = this.#doorsOf(name)
    const loopback = isLoopback(at.host)
    if (!loopback && !isWildcard(at.host) && at.host !== name) throw fail('EADDRNOTAVAIL')
    if (doors.has(at.port)) throw fail('EADDRINUSE')
    const port = at.port === 0 ? this.#freePort(doors) : at.port
    const door = { tls: at.tls !== undefined, loopback, accept }
    doors.set(port, door)
    return {
      host: at.host,
      port,
      close: async () => {
        if (doors.get(port) === door) doors.delete(port)
      }
    }
  }

  #connect(from: string, to: Address, handler: SocketHandler): Socket {
    const target = isLoopback(to.host) ? from : to.host
    const connection = ++this.#connections
    const request = this.#pipe({ connection, from, to: target, direction: 'request' })
    const answer = this.#pipe({ connection, from: target, to: from, direction: 'answer' })
    const local = { host: from, port: this.#freePort(new Map()) }
    const remote = { host: to.host, port: to.port }
    const caller = new MemorySocket(this.#clock, request, answer, local, remote)
    caller.attend(handler)
    const fail = (code: string) => {
      caller.failed(connectFailure(to.host, to.port, systemError(code), to.tls !== undefined))
    }
    const arrive = () => {
      const door = this.#doors.get(target)?.get(to.port)
      if (door === undefined || (door.loopback && target !== from)) return fail('ECONNREFUSED')
      if (door.tls !== (to.tls !== undefined)) return fail('ECONNRESET')
      const callee = new MemorySocket(this.#clock, answer, request, remote, local)
      callee.accepted()
      caller.answered()
      callee.attend(door.accept(callee))
      this.#travel(caller, answer.link, () => caller.opened(), fail)
    }
    if (this.#doors.has(target)) this.#travel(caller, request.link, arrive, fail)
    else caller.waitsFor(this.#clock.soon(() => fail('ENOTFOUND')))
    return caller
  }

  /** A call, or the answer to it, goes over the wire. */
  #travel(
    caller: MemorySocket,
    link: Link,
    arrive: () => void,
    fail: (code: string) => void
  ): void {
    const pump = () => {
      if (caller.gone) return
      const delayMs = this.#wire.dial(link)
      if (delayMs === Infinity) this.#stalled.add({ pump })
      else if (delayMs === 'refused') caller.waitsFor(this.#clock.soon(() => fail('ECONNREFUSED')))
      else caller.waitsFor(this.#clock.after(delayMs, arrive))
    }
    pump()
  }

  #pipe(link: Link): Pipe {
    return new Pipe(link, this.#clock, this.#wire, this.#stalled)
  }

  #doorsOf(name: string): Map<number, Door> {
    const doors = this.#doors.get(name)
    assert(doors !== undefined, `the node '${name}' exists`)
    return doors
  }

  #freePort(taken: ReadonlyMap<number, unknown>): number {
    for (;;) {
      const port = this.#nextPort
      this.#nextPort = port === lastPort ? firstFreePort : port + 1
      if (!taken.has(port)) return port
    }
  }
}

function isLoopback(host: string): boolean {
  return host === '127.0.0.1' || host === '::1' || host === 'localhost'
}

function isWildcard(host: string): boolean {
  return host === '0.0.0.0' || host === '::'
}

function systemError(code: string): Error {
  return Object.assign(new Error(code), { code })
}
