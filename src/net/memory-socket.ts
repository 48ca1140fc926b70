/** A socket in memory: one end of two pipes. Its phases and rules are those of the socket in tcp.ts. */

import type { Clock, Socket, SocketHandler, Timer } from '../base/env.ts'
import { connectionLoss } from './failure.ts'
import { highWaterBytes, keepAliveMs, lingerMs } from './limits.ts'
import type { Pipe, Receiver, Sender } from './pipe.ts'

type Phase = 'connecting' | 'open' | 'ending' | 'dying' | 'closed'

export interface Place {
  readonly host: string
  readonly port: number
}

/** The machine a socket is on. */
export interface Machine {
  /** Every socket that is not closed, in the order of their making. */
  readonly sockets: Set<MemorySocket>
  /** Without power: nothing leaves and nothing arrives. */
  readonly off: boolean
}

export class MemorySocket implements Socket, Sender, Receiver {
  readonly local: Place
  readonly remote: Place
  readonly #clock: Clock
  readonly #machine: Machine
  readonly #out: Pipe
  readonly #in: Pipe
  #handler: SocketHandler | undefined
  #phase: Phase = 'connecting'
  #isOpen = false
  /** The machine lost power with it: it is closed, but the other side doesn't know. */
  #forgotten = false
  #paused = false
  #blocked = false
  #ended = false
  #peerEnded = false
  #answered = false
  /** What is to happen next of itself: it opens or closes, drains, lingers no longer. */
  #turning: Timer | undefined
  #draining: Timer | undefined
  #lingering: Timer | undefined

  constructor(
    clock: Clock,
    machine: Machine,
    [out, into]: readonly [out: Pipe, into: Pipe],
    [local, remote]: readonly [local: Place, remote: Place]
  ) {
    this.#clock = clock
    this.#machine = machine
    machine.sockets.add(this)
    this.#out = out
    this.#in = into
    this.local = local
    this.remote = remote
    out.sender = this
    into.receiver = this
  }

  attend(handler: SocketHandler): void {
    this.#handler = handler
    this.#in.pump()
  }

  /** Of the side that accepts: open from its start. */
  accepted(): void {
    this.#isOpen = true
    this.#phase = 'open'
  }

  /** Of the side that dials: what it waits for now. */
  waitsFor(timer: Timer): void {
    this.#turning = timer
  }

  /** The other side has accepted: it would hear of a reset. */
  answered(): void {
    this.#answered = true
  }

  opened(): void {
    if (this.gone) return
    const ending = this.#phase === 'ending'
    if (!ending) this.#phase = 'open'
    this.#isOpen = true
    this.#handler?.onOpen?.()
    this.#out.release()
    this.#in.release()
    if (ending && !this.gone) this.#finish()
  }

  failed(error: Error): void {
    if (this.gone) return
    this.#in.stop()
    if (this.#answered) this.#out.cut()
    this.#close(error)
  }

  /** The process that owns it died. Nobody here is told; the system resets the connection. */
  kill(): void {
    if (this.#phase === 'closed') return
    const known = this.#isKnown
    this.#in.stop()
    this.#close(undefined, false)
    if (known) this.#out.cut()
  }

  /** Its machine lost power. Nobody is told anywhere: the peer has a half-open connection. */
  forget(): void {
    if (this.#phase === 'closed') return
    const known = this.#isKnown
    this.#close(undefined, false)
    if (!known) return this.#in.stop()
    this.#forgotten = true
    this.#machine.sockets.add(this)
    this.#out.lose()
  }

  /** Its machine is back, and answers what arrives for a forgotten socket by a reset: the peer's next probe at the latest. */
  wake(): void {
    if (!this.#forgotten) return
    this.#turning = this.#clock.after(keepAliveMs, () => {
      if (this.#forgotten && !this.#machine.off) this.#disown()
    })
    this.#in.pump()
  }

  get gone(): boolean {
    return this.#phase === 'dying' || this.#phase === 'closed'
  }

  get queuedBytes(): number {
    return this.gone ? 0 : this.#out.waitingBytes
  }

  get paused(): boolean {
    if (this.#forgotten) return this.#machine.off
    return this.#paused || !this.#isOpen || this.#handler === undefined
  }

  write(buffers: readonly Uint8Array[]): boolean {
    if (this.#phase !== 'open' && this.#phase !== 'connecting') return true
    this.#out.write(buffers)
    if (this.#out.waitingBytes <= highWaterBytes) return true
    this.#blocked = true
    return false
  }

  pause(): void {
    this.#paused = true
  }

  resume(): void {
    this.#paused = false
    this.#in.pump()
  }

  end(): void {
    if (this.#phase !== 'open' && this.#phase !== 'connecting') return
    this.#phase = 'ending'
    this.#linger()
    if (this.#isOpen) this.#finish()
  }

  destroy(error?: Error): void {
    if (this.gone) return
    const known = this.#isKnown
    this.#phase = 'dying'
    this.#forgetTimers()
    this.#in.stop()
    if (known) this.#out.cut()
    this.#turning = this.#clock.soon(() => this.#close(error))
  }

  received(chunk: Buffer): void {
    if (this.#forgotten) return this.#disown()
    if (this.#phase === 'ending') this.#linger()
    this.#handler?.onData(chunk)
  }

  receivedEnd(): void {
    if (this.#forgotten) return this.#disown()
    this.#peerEnded = true
    this.#in.stop()
    if (this.#phase === 'open') {
      this.#phase = 'ending'
      this.#linger()
      this.#finish()
    } else this.#closeWhenDone()
  }

  receivedReset(): void {
    if (this.#forgotten) return this.#disown()
    if (this.gone) return
    this.#in.stop()
    this.#out.cut()
    const { host, port } = this.remote
    const cause = Object.assign(new Error('reset'), { code: 'ECONNRESET' })
    this.#close(connectionLoss(host, port, cause))
  }

  handedOver(): void {
    if (this.#phase === 'ending') {
      this.#linger()
      this.#draining ??= this.#clock.soon(() => {
        this.#draining = undefined
        this.#closeWhenDone()
      })
    } else if (this.#blocked && this.#phase === 'open') {
      this.#draining ??= this.#clock.soon(() => {
        this.#draining = undefined
        if (!this.#blocked || this.#phase !== 'open') return
        this.#blocked = false
        this.#handler?.onDrain?.()
      })
    }
  }

  /** The other side has heard of it, and would hear of a reset. */
  get #isKnown(): boolean {
    return this.#isOpen || this.#answered
  }

  #disown(): void {
    this.#turning?.cancel()
    this.#forgotten = false
    this.#machine.sockets.delete(this)
    this.#in.stop()
    this.#out.cut()
  }

  #finish(): void {
    if (this.#ended) return
    this.#ended = true
    this.#out.end()
    this.#closeWhenDone()
  }

  #closeWhenDone(): void {
    const done = this.#ended && this.#peerEnded && this.#out.waitingBytes === 0
    if (done && !this.gone) this.#close(undefined)
  }

  #linger(): void {
    this.#lingering?.cancel()
    this.#lingering = this.#clock.after(lingerMs, () => {
      const { host, port } = this.remote
      this.destroy(connectionLoss(host, port, new Error('it was ended, and the peer is silent')))
    })
  }

  #forgetTimers(): void {
    this.#turning?.cancel()
    this.#draining?.cancel()
    this.#lingering?.cancel()
  }

  #close(error: Error | undefined, tell = true): void {
    this.#phase = 'closed'
    this.#machine.sockets.delete(this)
    this.#forgetTimers()
    const handler = this.#handler
    this.#handler = undefined
    if (tell) handler?.onClose(error)
  }
}
