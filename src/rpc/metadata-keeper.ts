/**
 * Keeps the metadata fresh: asks on demand, when somebody says it is stale, and before it is too old. All who
 * want it at the same time share one request; requests that follow each other are spaced by a back-off.
 *
 * Two kinds of topics are asked for: those that somebody watches (`refresh({ topics })`, until `forget`), also
 * when they don't exist yet; and those that were found by `topic()`, until they exist no more.
 */
import { onAbort } from '../base/abort.ts'
import type { Clock, Env, Timer } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'
import { Metadata as MetadataApi } from '../protocol/api/metadata.ts'
import { KafkaError } from '../protocol/errors.ts'
import type { ResponseOf } from '../protocol/schema.ts'
import { answerError } from './answer-errors.ts'
import type { Rpc } from './call.ts'
import {
  type LeaderEndpoint,
  type LeaderHint,
  type Metadata,
  type TopicMetadata,
  metadataAfter,
  metadataWithLeaders,
  noMetadata,
  topicFrom
} from './metadata.ts'
import type { ClusterSettings } from './options.ts'
import { Again, type Backoff, abortError, backoffMs, isPassing, retrying } from './retry.ts'

/** Between two refreshes that were asked for because the metadata is stale. */
const staleBackoff: Backoff = { firstMs: 50, mostMs: 1_000 }

/** One attempt; then another broker is asked. */
const attemptMs = 5_000

/** A topic just made may be unknown to a broker for a moment: `topic()` believes it after so many answers. */
const unknownAnswers = 5

export interface KeeperWorld {
  readonly env: Env
  readonly rpc: Rpc
  readonly settings: ClusterSettings
  readonly closing: AbortSignal
  /** A new value, before the listeners are told. */
  onValue(metadata: Metadata): void
  /** The brokers known so far are to be forgotten (KIP-1102). */
  onRebootstrap(): void
}

interface Round {
  readonly topics: ReadonlySet<string>
  readonly done: Promise<Metadata>
}

export class MetadataKeeper {
  value: Metadata = noMetadata
  /** The newest trouble with any broker, since one answered: what to say when the time is up. */
  trouble: PlayheadError | undefined
  readonly #world: KeeperWorld
  readonly #watched = new Set<string>()
  readonly #found = new Set<string>()
  /** What the last answer said about a topic that isn't in the value. */
  #missing = new Map<string, number>()
  readonly #listeners = new Set<(metadata: Metadata) => void>()
  #running: Round | null = null
  #next: Round | null = null
  #nextTopics = new Set<string>()
  #age: Timer | null = null
  #staleTimer: Timer | null = null
  /** Refreshes because of staleness in a row, and when the last one began. */
  #staleCount = 0
  #background = false
  #staleAt = -Infinity

  constructor(world: KeeperWorld) {
    this.#world = world
  }

  /** Now; joins one on its way when that asks for the same topics. */
  refresh(
    topics: readonly string[],
    deadline: number | undefined,
    signal: AbortSignal | undefined
  ): Promise<Metadata> {
    for (const topic of topics) this.#watched.add(topic)
    const shared = orAbort(this.#refresh(topics), signal)
    return deadline === undefined ? shared : this.#until(deadline, shared, 'metadata')
  }

  forget(topics: readonly string[]): void {
    for (const topic of topics) {
      this.#watched.delete(topic)
      this.#found.delete(topic)
    }
  }

  async topic(name: string, deadline: number, signal?: AbortSignal): Promise<TopicMetadata> {
    const known = this.value.topics.get(name)
    if (known) return known
    const options = { deadline, signals: [this.#world.closing, signal] }
    return await retrying(this.#world.env, options, async attempt => {
      const shared = orAbort(this.#refresh([name]), signal)
      const metadata = await this.#until(deadline, shared, `metadata of topic '${name}'`)
      const topic = metadata.topics.get(name)
      if (topic) {
        this.#found.add(name)
        return topic
      }
      const code = this.#missing.get(name) ?? KafkaError.UNKNOWN_TOPIC_OR_PARTITION
      const error = answerError(code, `metadata of topic '${name}'`, { topic: name })
      const unknown = error.code === 'UNKNOWN_TOPIC' && attempt >= unknownAnswers
      if (!error.retriable || unknown) throw unknownTopic(name, error)
      return new Again(error)
    })
  }

  #until<T>(deadline: number, work: Promise<T>, what: string): Promise<T> {
    return before(this.#world.env.clock, deadline, work, () => {
      const cause = this.trouble
      const code = cause?.code ?? 'TIMED_OUT'
      const message = `${what}: not within the time given${cause ? `: ${cause.message}` : ''}`
      return new PlayheadError(code, message, { retriable: true, cause })
    })
  }

  watch(listener: (metadata: Metadata) => void): () => void {
    // The same function may be given twice: each has its own end.
    const own = (metadata: Metadata) => listener(metadata)
    this.#listeners.add(own)
    return () => void this.#listeners.delete(own)
  }

  /** Refreshes soon; the more often in a row, the later. */
  stale(why: string): void {
    const { env, closing } = this.#world
    if (this.#staleTimer || closing.aborted) return
    const now = env.clock.monotonic()
    // Quiet for long: the next one is the first again.
    if (now - this.#staleAt > 10 * staleBackoff.mostMs) this.#staleCount = 0
    const earliest =
      this.#staleCount === 0
        ? now
        : this.#staleAt + backoffMs(env.random, staleBackoff, this.#staleCount)
    env.log.debug('metadata is stale', { why })
    this.#staleTimer = env.clock.after(Math.max(0, earliest - now), () => {
      this.#staleTimer = null
      this.#staleAt = env.clock.monotonic()
      this.#staleCount++
      this.#inBackground()
    })
  }

  /** A broker named newer leaders: they hold until the next refresh, which this doesn't put off. */
  learned(hints: readonly LeaderHint[], endpoints: readonly LeaderEndpoint[]): void {
    if (this.#world.closing.aborted) return
    const value = metadataWithLeaders(this.value, hints, endpoints)
    if (value !== this.value) this.#set(value)
  }

  close(): void {
    this.#age?.cancel()
    this.#staleTimer?.cancel()
    this.#listeners.clear()
  }

  /** One at a time: a cluster that is gone for a while is said to be so once for each attempt, not for each hint. */
  #inBackground(): void {
    if (this.#background) return
    const { env, closing } = this.#world
    this.#background = true
    this.#refresh([])
      .catch((error: Error) => {
        if (closing.aborted) return
        env.log.warn('metadata could not be refreshed', { error })
        // Who said so doesn't say it again: a partition without a leader waits for it, and asks nobody meanwhile.
        this.stale('the last refresh failed')
      })
      .finally(() => {
        this.#background = false
      })
  }

  #refresh(topics: readonly string[]): Promise<Metadata> {
    const running = this.#running
    if (!running) return this.#start(topics)
    if (topics.every(topic => running.topics.has(topic))) return running.done
    // It was sent without one of them: another follows, for all who come until it starts.
    for (const topic of topics) this.#nextTopics.add(topic)
    this.#next ??= {
      topics: this.#nextTopics,
      done: running.done
        .catch(() => {})
        .then(() => {
          const wanted = this.#nextTopics
          this.#next = null
          this.#nextTopics = new Set()
          return this.#refresh([...wanted])
        })
    }
    return this.#next.done
  }

  #start(topics: readonly string[]): Promise<Metadata> {
    const asked = new Set([...this.#watched, ...this.#found, ...topics])
    const done = this.#ask(asked).finally(() => {
      this.#running = null
      this.#scheduleAge()
    })
    done.catch(() => {})
    this.#running = { topics: asked, done }
    return done
  }

  async #ask(asked: ReadonlySet<string>): Promise<Metadata> {
    const { env, settings, closing } = this.#world
    const deadline = env.clock.monotonic() + settings.requestTimeoutMs
    return await retrying(env, { deadline, signals: [closing] }, async () => {
      const leftMs = deadline - env.clock.monotonic()
      const answer = await this.#request([...asked], Math.min(attemptMs, leftMs))
      if (answer instanceof Again) return answer
      if (answer.errorCode !== KafkaError.NONE) {
        if (answer.errorCode === KafkaError.REBOOTSTRAP_REQUIRED) this.#world.onRebootstrap()
        return new Again(answerError(answer.errorCode, 'metadata', { retriable: true }))
      }
      return this.#take(answer, asked)
    })
  }

  /** Asking twice does no harm, so an unknown outcome is tried again too. */
  async #request(
    topics: readonly string[] | null,
    timeoutMs: number
  ): Promise<ResponseOf<typeof MetadataApi> | Again> {
    const { rpc, settings } = this.#world
    const body = (version: number) => ({
      topics: topics?.map(name => ({ name })) ?? null,
      ...(version >= 4 ? { allowAutoTopicCreation: settings.autoCreateTopics } : {})
    })
    try {
      // In version 0 an empty list means all topics.
      const answer = await rpc.request(MetadataApi, body, { to: 'any', timeoutMs, minVersion: 1 })
      this.trouble = undefined
      return answer
    } catch (error) {
      if (error instanceof PlayheadError && isPassing(error)) return new Again(error)
      throw error
    }
  }

  /** Every topic there is, as of now; the value isn't changed. */
  async listTopics(timeoutMs: number, signal?: AbortSignal): Promise<readonly TopicMetadata[]> {
    const { env, closing } = this.#world
    const deadline = env.clock.monotonic() + timeoutMs
    return await retrying(env, { deadline, signals: [closing, signal] }, async () => {
      const leftMs = deadline - env.clock.monotonic()
      const answer = await orAbort(this.#request(null, Math.min(attemptMs, leftMs)), signal)
      if (answer instanceof Again) return answer
      return answer.topics.flatMap(({ name, errorCode, ...found }) => {
        const topic = name !== null && errorCode === 0 ? topicFrom(name, found) : undefined
        return topic ? [topic] : []
      })
    })
  }

  #take(answer: ResponseOf<typeof MetadataApi>, asked: ReadonlySet<string>): Metadata {
    const { env } = this.#world
    const wanted = new Set([...asked, ...this.#watched, ...this.#found])
    const value = metadataAfter(this.value, answer, wanted, env.clock.monotonic())
    const missing = answer.topics.filter(({ errorCode }) => errorCode !== KafkaError.NONE)
    this.#missing = new Map(missing.map(({ name, errorCode }) => [name ?? '', errorCode]))
    for (const name of this.#found) if (!value.topics.has(name)) this.#found.delete(name)
    this.#set(value)
    return value
  }

  #set(value: Metadata): void {
    this.value = value
    this.#world.onValue(value)
    for (const listener of this.#listeners) this.#tell(listener, value)
  }

  #tell(listener: (metadata: Metadata) => void, value: Metadata): void {
    try {
      listener(value)
    } catch (error) {
      // A listener's mistake is not the refresh's.
      this.#world.env.log.error('a listener of the metadata threw', { error })
    }
  }

  #scheduleAge(): void {
    const { env, settings, closing } = this.#world
    this.#age?.cancel()
    if (closing.aborted) return
    const delayMs = settings.metadataMaxAgeMs * (0.9 + 0.1 * env.random.next())
    this.#age = env.clock.after(delayMs, () => this.#inBackground())
  }
}

function unknownTopic(topic: string, cause: PlayheadError): PlayheadError {
  if (cause.code !== 'UNKNOWN_TOPIC') return cause
  const message = `there is no topic '${topic}'`
  return new PlayheadError('UNKNOWN_TOPIC', message, { topic, cause })
}

/** Shared work goes on for the others when one gives up. */
export function orAbort<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work
  return new Promise((resolve, reject) => {
    const abort = () => reject(abortError(signal))
    if (signal.aborted) return abort()
    work.then(resolve, reject).finally(onAbort(signal, abort))
  })
}

/** Shared work goes on for the others when one's time is up. */
export function before<T>(
  clock: Clock,
  deadline: number,
  work: Promise<T>,
  late: () => PlayheadError
): Promise<T> {
  return new Promise((resolve, reject) => {
    const leftMs = Math.max(0, deadline - clock.monotonic())
    const timer = clock.after(leftMs, () => reject(late()))
    work.then(resolve, reject).finally(() => timer.cancel())
  })
}
