/**
 * One process on a node of the simulated world: everything it sees of the world, through an `Env` of its own.
 *
 * Each callback from outside is an event and passes the gate here: a paused process finds them all late and
 * together, in order; a slow one takes its time for each; a dead one gets none, ever again. What a process holds on to
 * (timers, sockets, listeners) is counted, so that one which closed in order can be shown to have left nothing.
 */
import type {
  Clock,
  Cpu,
  Env,
  Log,
  LogFields,
  Net,
  Socket,
  SocketHandler,
  Timer
} from '../../src/base/env.ts'
import type { SeededRandom } from './random.ts'

/** What a process is started with. */
export interface ProcessWorld {
  readonly clock: Clock
  readonly net: Net
  readonly cpu: (clock: Clock, random: SeededRandom) => Cpu
  readonly random: SeededRandom
  /** How far the node's wall clock is off. */
  readonly wallOffsetMs: () => number
  /** An error that nobody in the process caught. */
  readonly uncaught: (process: Process, error: unknown) => void
  readonly logged: (process: Process, level: LogLevel, message: string, fields?: LogFields) => void
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** An event on its way into a process. */
class Held {
  cancelled = false
  readonly fire: () => void

  constructor(fire: () => void) {
    this.fire = fire
  }

  cancel(): void {
    this.cancelled = true
  }
}

export class Process {
  readonly node: string
  /** Counts the processes of the node. */
  readonly incarnation: number
  readonly env: Env
  readonly random: SeededRandom
  dead = false
  /** How many callbacks it got. */
  events = 0
  readonly #world: ProcessWorld
  #paused = false
  #slowMs = 0
  #queue: Held[] = []
  #draining: Timer | undefined
  #timers = 0
  #sockets = 0
  #listeners = 0

  constructor(node: string, incarnation: number, world: ProcessWorld) {
    this.node = node
    this.incarnation = incarnation
    this.#world = world
    this.random = world.random
    const clock = this.#clock()
    this.env = {
      clock,
      net: this.#net(),
      cpu: world.cpu(clock, world.random.split('cpu')),
      random: world.random.split('env'),
      log: this.#log()
    }
  }

  /** What it still holds on to, in words; empty: nothing. */
  get leftovers(): string {
    const counts = [
      [this.#timers, 'timers'],
      [this.#sockets, 'sockets'],
      [this.#listeners, 'listeners']
    ] as const
    return counts.flatMap(([count, what]) => (count > 0 ? [`${count} ${what}`] : [])).join(', ')
  }

  /** Nothing reaches it any more. Its connections are the network's to break. */
  kill(): void {
    this.dead = true
    this.#queue = []
    this.#draining?.cancel()
  }

  pause(): void {
    this.#paused = true
    this.#draining?.cancel()
    this.#draining = undefined
  }

  resume(): void {
    this.#paused = false
    this.#drain()
  }

  get paused(): boolean {
    return this.#paused
  }

  /** From now on each event takes up to `ms`; 0: no time. */
  slow(ms: number): void {
    this.#slowMs = ms
  }

  /** An event reaches the process. */
  enter(fire: () => void): Timer {
    const held = new Held(fire)
    if (this.#waits) {
      if (!this.dead) this.#queue.push(held)
      this.#drain()
    } else this.#run(held)
    return held
  }

  /** Whether what comes now has to wait. */
  get #waits(): boolean {
    return this.#paused || this.#slowMs > 0 || this.#queue.length > 0
  }

  #run(held: Held): void {
    if (this.dead || held.cancelled) return
    this.events++
    try {
      held.fire()
    } catch (error) {
      this.#world.uncaught(this, error)
    }
  }

  /** One event at a time, so that promise jobs run between them. */
  #drain(): void {
    if (this.#draining !== undefined || this.#paused || this.#queue.length === 0) return
    const delayMs = this.#slowMs * this.random.next()
    this.#draining = this.#world.clock.after(delayMs, () => {
      this.#draining = undefined
      const held = this.#queue.shift()
      if (held !== undefined) this.#run(held)
      this.#drain()
    })
  }

  #clock(): Clock {
    const { clock, wallOffsetMs } = this.#world
    const count = (by: number): void => {
      this.#timers += by
    }
    const ask = (fire: () => void, start: (alarm: Alarm) => Timer): Timer => {
      if (this.dead) return nothing
      const alarm = new Alarm(this, fire, count)
      alarm.timer = start(alarm)
      return alarm
    }
    return {
      now: () => clock.now() + wallOffsetMs(),
      monotonic: () => clock.monotonic(),
      after: (delayMs, fire) => ask(fire, alarm => clock.after(delayMs, () => alarm.due())),
      soon: fire => ask(fire, alarm => clock.soon(() => alarm.due()))
    }
  }

  #net(): Net {
    const { net } = this.#world
    return {
      connect: (to, handler) => {
        this.#sockets++
        return net.connect(to, this.#gated(handler))
      },
      listen: async (at, accept) => {
        const listener = await net.listen(at, socket => {
          this.#sockets++
          const accepting = new Accepting(socket, accept)
          this.enter(() => accepting.begin())
          return this.#gated(accepting)
        })
        this.#listeners++
        let open = true
        return {
          host: listener.host,
          port: listener.port,
          close: async () => {
            if (open) this.#listeners--
            open = false
            await listener.close()
          }
        }
      }
    }
  }

  /** `chunk` is only valid during the call, so an event that waits keeps a copy. */
  #gated(handler: SocketHandler): SocketHandler {
    return {
      onOpen: () => void this.enter(() => handler.onOpen?.()),
      onData: chunk => {
        const bytes = this.#waits ? Buffer.from(chunk) : chunk
        this.enter(() => handler.onData(bytes))
      },
      onDrain: () => void this.enter(() => handler.onDrain?.()),
      onClose: error => {
        this.enter(() => {
          this.#sockets--
          handler.onClose(error)
        })
      }
    }
  }

  #log(): Log {
    const at =
      (level: LogLevel) =>
      (message: string, fields?: LogFields): void => {
        if (!this.dead) this.#world.logged(this, level, message, fields)
      }
    return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
  }
}

const nothing: Timer = { cancel: () => {} }

/** A timer of a process. */
class Alarm implements Timer {
  timer: Timer = nothing
  readonly #process: Process
  readonly #fire: () => void
  readonly #count: (by: number) => void
  #live = true

  constructor(process: Process, fire: () => void, count: (by: number) => void) {
    this.#process = process
    this.#fire = fire
    this.#count = count
    count(1)
  }

  due(): void {
    this.#process.enter(() => {
      if (this.#done()) this.#fire()
    })
  }

  cancel(): void {
    if (this.#done()) this.timer.cancel()
  }

  #done(): boolean {
    if (!this.#live) return false
    this.#live = false
    this.#count(-1)
    return true
  }
}

/** Asks the process for a handler when the accept gets through to it: it may be paused. */
class Accepting implements SocketHandler {
  readonly #socket: Socket
  readonly #accept: (socket: Socket) => SocketHandler
  #handler: SocketHandler | undefined

  constructor(socket: Socket, accept: (socket: Socket) => SocketHandler) {
    this.#socket = socket
    this.#accept = accept
  }

  begin(): void {
    void this.#its
  }

  get #its(): SocketHandler {
    return (this.#handler ??= this.#accept(this.#socket))
  }

  onOpen(): void {
    this.#its.onOpen?.()
  }

  onData(chunk: Buffer): void {
    this.#its.onData(chunk)
  }

  onDrain(): void {
    this.#its.onDrain?.()
  }

  onClose(error?: Error): void {
    this.#its.onClose(error)
  }
}
