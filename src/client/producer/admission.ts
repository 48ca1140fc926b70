/**
 * The way of a call from `send` into batches. Mostly straight through, within the call. Else it waits at one of
 * two gates, each first come, first served, so that records of a partition keep the order of the calls:
 * first until the topic is known (a line for each topic), then for room in the buffer (one line for all). Each line is in
 * the order of the calls, and so of their deadlines: who comes to the second gate from a topic that was long unknown
 * takes its place among those that were let in meanwhile.
 */
import { Fifo } from '../../base/fifo.ts'
import { PlayheadError } from '../../base/error.ts'
import { Again, retrying } from '../../rpc/retry.ts'
import type { Outbox, ProducerCluster } from './outbox.ts'
import type { Sending } from './sending.ts'
import type { Topic } from './topic.ts'

export class Admission {
  readonly #cluster: ProducerCluster
  readonly #outbox: Outbox
  readonly #signal: AbortSignal
  readonly #moved: () => void
  /** Calls for topics that are being asked for. */
  readonly #asking = new Map<string, Fifo<Sending>>()
  readonly #forRoom: Fifo<Sending>
  #waiting = 0

  /** `moved`: some that waited for a topic do so no more. */
  constructor(cluster: ProducerCluster, outbox: Outbox, signal: AbortSignal, moved: () => void) {
    this.#moved = moved
    this.#cluster = cluster
    this.#outbox = outbox
    this.#signal = signal
    this.#forRoom = new Fifo('sends that wait for room', outbox.settings.maxWaitingSends)
  }

  /** Some calls wait for room in the buffer. */
  get isFull(): boolean {
    return this.#forRoom.length > 0
  }

  /** Calls that are at a gate. */
  get waiting(): number {
    return this.#waiting
  }

  /** `highestPartition`: of those that records name; -1 when none does. */
  submit(sending: Sending, highestPartition: number): void {
    const line = this.#asking.get(sending.topic)
    const topic = this.#outbox.topic(sending.topic)
    if (line === undefined && topic !== undefined && highestPartition < topic.partitionCount) {
      this.#admit(topic, sending)
      return
    }
    if (this.#waiting >= this.#outbox.settings.maxWaitingSends) {
      const message = `${this.#waiting} sends wait already, the limit (maxWaitingSends); await some of them`
      sending.refuse(new PlayheadError('QUEUE_FULL', message, { retriable: true }))
      return
    }
    this.#waiting++
    if (line !== undefined) line.push(sending)
    else this.#ask(sending)
  }

  /** Whether a call waits that was made when its deadline was `deadline` or less. */
  holds(deadline: number): boolean {
    const first = (line: Fifo<Sending>) => (line.peek()?.deadline ?? Infinity) <= deadline
    return first(this.#forRoom) || [...this.#asking.values()].some(first)
  }

  /** Bytes were given back. */
  roomCame(): void {
    for (let first = this.#forRoom.peek(); first !== undefined; first = this.#forRoom.peek()) {
      const topic = this.#outbox.topic(first.topic)
      if (topic !== undefined && !this.#append(topic, first)) return
      this.#forRoom.shift()
      this.#waiting--
    }
  }

  /** What has waited past its deadline fails. In each line the first came first, and its deadline is the first. */
  sweep(now: number): void {
    const { deliveryTimeoutMs } = this.#outbox.settings
    const late = (line: Fifo<Sending>, why: string) => {
      for (let first = line.peek(); first !== undefined; first = line.peek()) {
        if (first.deadline > now) return
        line.shift()
        this.#waiting--
        const message = `not sent within ${deliveryTimeoutMs} ms: ${why}`
        const details = { topic: first.topic, retriable: true }
        first.refuse(new PlayheadError('TIMED_OUT', message, details))
      }
    }
    for (const [topic, line] of this.#asking) late(line, `nothing is known of topic ${topic}`)
    late(this.#forRoom, 'the buffer was full (maxBufferedBytes)')
  }

  /** Everything that waits fails. */
  refuseAll(error: PlayheadError): void {
    for (const line of this.#asking.values()) this.#refuse(line, error)
    this.#refuse(this.#forRoom, error)
  }

  #refuse(line: Fifo<Sending>, error: PlayheadError): void {
    for (let first = line.shift(); first !== undefined; first = line.shift()) {
      this.#waiting--
      first.refuse(error)
    }
  }

  /** The topic is known. */
  #admit(topic: Topic, sending: Sending): void {
    if (this.#forRoom.length === 0 && this.#append(topic, sending)) return
    if (this.#forRoom.full) {
      const message = `${this.#forRoom.length} sends wait for room already, the limit (maxWaitingSends)`
      return sending.refuse(new PlayheadError('QUEUE_FULL', message, { retriable: true }))
    }
    const first = this.#forRoom.length === 0
    this.#forRoom.push(sending)
    this.#waiting++
    // Batches that were waiting to grow leave now.
    if (first) this.#outbox.offerAll()
  }

  /** False: the buffer is full, and some of its records are left. */
  #append(topic: Topic, sending: Sending): boolean {
    const outbox = this.#outbox
    const { maxBufferedBytes } = outbox.settings
    try {
      while (sending.current !== undefined) {
        if (outbox.bufferedBytes >= maxBufferedBytes) return false
        outbox.append(topic, sending)
      }
    } catch (error) {
      if (!(error instanceof PlayheadError)) throw error
      sending.refuse(error)
    }
    return true
  }

  /** Asks for the topic, or for a partition that it is not known to have; then lets in who came meanwhile. */
  #ask(sending: Sending): void {
    const { topic } = sending
    const line = new Fifo<Sending>(
      `sends that wait for topic ${topic}`,
      this.#outbox.settings.maxWaitingSends
    )
    line.push(sending)
    this.#asking.set(topic, line)
    this.#find(topic, line).then(
      found => {
        this.#asking.delete(topic)
        this.#letIn(found, line)
        this.#moved()
      },
      (error: unknown) => {
        this.#asking.delete(topic)
        if (!(error instanceof PlayheadError)) throw error
        this.#refuse(line, error)
        this.#moved()
      }
    )
  }

  /** In the order of the calls, with those that wait for room already. */
  #letIn(topic: Topic, line: Fifo<Sending>): void {
    const others = [...this.#forRoom]
    this.#forRoom.clear()
    for (const other of others) {
      for (let first = line.peek(); first !== undefined; first = line.peek()) {
        if (first.deadline >= other.deadline) break
        line.shift()
        this.#forRoom.push(first)
      }
      this.#forRoom.push(other)
    }
    for (let first = line.shift(); first !== undefined; first = line.shift()) {
      this.#waiting--
      this.#admit(topic, first)
    }
  }

  async #find(name: string, line: Fifo<Sending>): Promise<Topic> {
    const { env, settings } = this.#outbox
    const signal = this.#signal
    const unknownUntil = env.clock.monotonic() + settings.topicTimeoutMs
    // Known, but not that partition: there may be more of them now.
    let known = this.#outbox.topic(name) !== undefined
    // Each call in the line has a deadline, which `sweep` keeps.
    const metadata = await retrying(env, { deadline: Infinity, signals: [signal] }, async () => {
      if (line.length === 0) throw new PlayheadError('ABORTED', 'nobody waits any more')
      try {
        if (known) await this.#cluster.refresh({ topics: [name], signal })
        known = false
        return await this.#cluster.topic(name, { signal })
      } catch (error) {
        // A topic may be a moment old, and unknown to the broker that was asked.
        const unknown = error instanceof PlayheadError && error.code === 'UNKNOWN_TOPIC'
        if (unknown && env.clock.monotonic() < unknownUntil) return new Again(error)
        throw error
      }
    })
    return this.#outbox.know(metadata)
  }
}
