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
import { type Machine, MemorySocket } from './memory-socket.ts'
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

/** A named node: one machine, and the process on it. */
interface Host extends Machine {
  readonly name: string
  readonly doors: Map<number, Door>
  off: boolean
  /** Counts its processes: the network of one that died is dead. */
  life: number
}

export class MemoryNetwork {
  readonly #clock: Clock
  readonly #wire: Wire
  /** A name is a node once it was asked for by `node`. */
  readonly #hosts = new Map<string, Host>()
  readonly #stalled = new Set<Stalled>()
  #connections = 0
  #nextPort = firstFreePort

  constructor(options: MemoryNetworkOptions) {
    this.#clock = options.clock
    this.#wire = options.wire ?? fairWire(options.random)
  }

  /** The network as a process on the node `name` sees it, until that process is killed. */
  node(name: string): Net {
    assert(!isLoopback(name) && !isWildcard(name), `'${name}' is no name of a node`)
    const host = this.#hosts.get(name) ?? this.#addHost(name)
    const { life } = host
    const dead = () => host.off || host.life !== life
    return {
      connect: (to, handler) => {
        const socket = this.#connect(host, to, handler)
        if (dead()) socket.kill()
        return socket
      },
      // A dead process gets no answer.
      listen: async (at, accept) =>
        dead() ? new Promise<never>(() => {}) : this.#listen(host, at, accept)
    }
  }

  /** The wire holds something no more: asks it again about all that it held. */
  retry(): void {
    const stalled = [...this.#stalled]
    this.#stalled.clear()
    for (const one of stalled) one.pump()
  }

  /** The process on the node dies. It is told nothing more; its connections are reset, as a system does. */
  kill(name: string): void {
    const host = this.#host(name)
    host.life++
    host.doors.clear()
    for (const socket of host.sockets) socket.kill()
  }

  /**
   * The node's machine loses power. Nobody is told: its peers have half-open connections, and who dials it
   * hears nothing, until `powerOn`. Then what still arrives for its old connections is answered by a reset.
   */
  powerOff(name: string): void {
    const host = this.#host(name)
    host.life++
    host.off = true
    host.doors.clear()
    for (const socket of Array.from(host.sockets)) socket.forget()
  }

  powerOn(name: string): void {
    const host = this.#host(name)
    host.off = false
    for (const socket of host.sockets) socket.wake()
    this.retry()
  }

  #listen(host: Host, at: ListenAddress, accept: Door['accept']): Listener {
    const fail = (code: string) => listenFailure(at.host, at.port, systemError(code))
    const { doors, name } = host
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

  #connect(from: Host, to: Address, handler: SocketHandler): MemorySocket {
    const target = isLoopback(to.host) ? from.name : to.host
    const connection = ++this.#connections
    const request = this.#pipe({ connection, from: from.name, to: target, direction: 'request' })
    const answer = this.#pipe({ connection, from: target, to: from.name, direction: 'answer' })
    const local = { host: from.name, port: this.#freePort(new Map()) }
    const remote = { host: to.host, port: to.port }
    const caller = new MemorySocket(this.#clock, from, [request, answer], [local, remote])
    caller.attend(handler)
    const fail = (code: string) => {
      caller.failed(connectFailure(to.host, to.port, systemError(code), to.tls !== undefined))
    }
    const host = this.#hosts.get(target)
    const arrive = () => {
      if (host === undefined) return fail('ENOTFOUND')
      if (host.off) return this.#travel(caller, request.link, arrive, fail, true)
      const door = host.doors.get(to.port)
      if (door === undefined || (door.loopback && host !== from)) return fail('ECONNREFUSED')
      if (door.tls !== (to.tls !== undefined)) return fail('ECONNRESET')
      const callee = new MemorySocket(this.#clock, host, [answer, request], [remote, local])
      callee.accepted()
      caller.answered()
      callee.attend(door.accept(callee))
      this.#travel(caller, answer.link, () => caller.opened(), fail)
    }
    if (host === undefined) caller.waitsFor(this.#clock.soon(arrive))
    else this.#travel(caller, request.link, arrive, fail)
    return caller
  }

  /** A call, or the answer to it, goes over the wire; `held`: not before the next `retry`. */
  #travel(
    caller: MemorySocket,
    link: Link,
    arrive: () => void,
    fail: (code: string) => void,
    held = false
  ): void {
    const pump = () => {
      if (caller.gone) return
      const delayMs = this.#wire.dial(link)
      if (delayMs === Infinity) this.#stalled.add({ pump })
      else if (delayMs === 'refused') caller.waitsFor(this.#clock.soon(() => fail('ECONNREFUSED')))
      else caller.waitsFor(this.#clock.after(delayMs, arrive))
    }
    if (held) this.#stalled.add({ pump })
    else pump()
  }

  #pipe(link: Link): Pipe {
    return new Pipe(link, this.#clock, this.#wire, this.#stalled)
  }

  #addHost(name: string): Host {
    const host = { name, doors: new Map(), sockets: new Set<MemorySocket>(), off: false, life: 0 }
    this.#hosts.set(name, host)
    return host
  }

  #host(name: string): Host {
    const host = this.#hosts.get(name)
    assert(host !== undefined, `the node '${name}' exists`)
    return host
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
