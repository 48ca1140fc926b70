/**
 * The cluster as one peer: requests are addressed by role (a partition's leader, a group's coordinator, the
 * controller, any broker) or by broker id, and go by that broker's link. Public as the low-level RPC API.
 *
 * Who tries again? The cluster does, as long as nothing was written: a target that is a role is looked up again
 * until the deadline, as brokers come and go; a broker named by its id is tried once. After the first byte the
 * outcome of a failure is unknown and belongs to the caller. Error codes in answers are data and belong to the
 * caller too, except that the cluster takes the hint: NOT_COORDINATOR makes it forget where the coordinator
 * was, NOT_LEADER makes it refresh the metadata. So a caller's loop is `cluster.retrying(…)` around a request
 * that returns `Again` for the codes it wants tried again (see retry.ts, answer-errors.ts).
 */
import { onAbort } from '../base/abort.ts'
import type { Env, Timer } from '../base/env.ts'
import { type ErrorDetails, PlayheadError } from '../base/error.ts'
import { ApiVersions } from '../protocol/api/api-versions.ts'
import { KafkaError } from '../protocol/errors.ts'
import type { Api, ResponseOf } from '../protocol/schema.ts'
import { answerError, errorCodesOf } from './answer-errors.ts'
import type { Answer, Body, Call, CallOptions, LaneName, Rpc, Target } from './call.ts'
import { type CoordinatorTarget, Coordinators } from './coordinators.ts'
import { Deadlines } from './deadlines.ts'
import { Exchange } from './exchange.ts'
import type { Link } from './link.ts'
import { Links } from './links.ts'
import {
  type LeaderEndpoint,
  type LeaderHint,
  type Metadata,
  type TopicMetadata,
  leaderOf
} from './metadata.ts'
import { MetadataKeeper, before, orAbort } from './metadata-keeper.ts'
import { clientSoftware } from './opening.ts'
import { type ClusterOptions, type ClusterSettings, readOptions } from './options.ts'
import { type Again, type Backoff, abortError, backoffMs, callBackoff, retrying } from './retry.ts'
import { versionTable } from './versions.ts'

/** Where a call is to go, and what was tried for it. */
interface Errand {
  readonly target: Target
  readonly lane: LaneName
  /** Of an 'any' call: who could not be had, in this round. */
  readonly tried: Set<Link>
  link: Link | null
  failures: number
  /** The back-off before the next attempt. */
  timer: Timer | null
  /** Stops listening to the caller's signal. */
  deafen: (() => void) | null
}

/** How long a call may take. */
export interface WaitOptions {
  /** Gives the call up: it rejects with ABORTED. */
  readonly signal?: AbortSignal | undefined
  /** Default: the cluster's `requestTimeoutMs`. */
  readonly timeoutMs?: number | undefined
}

/** The low-level RPC API: any request to whoever should get it (docs/rpc.md). Connects when first used. */
export class Cluster implements Rpc {
  /** The world that it lives in. */
  readonly env: Env
  readonly #settings: ClusterSettings
  readonly #links: Links
  readonly #keeper: MetadataKeeper
  readonly #coordinators: Coordinators
  readonly #deadlines: Deadlines
  readonly #calls = new Set<Exchange>()
  readonly #closing = new AbortController()
  #closed: Promise<void> | null = null

  /** Connects when first used. Throws INVALID_ARGUMENT. */
  constructor(env: Env, options: ClusterOptions) {
    this.env = env
    this.#settings = readOptions(options)
    this.#deadlines = new Deadlines(env.clock)
    this.#links = new Links(env, this.#settings, {
      onTrouble: (link, error) => this.#onTrouble(link, error)
    })
    this.#keeper = new MetadataKeeper({
      env,
      rpc: this,
      settings: this.#settings,
      closing: this.#closing.signal,
      onValue: metadata => this.#links.update(metadata),
      onRebootstrap: () => this.#links.forgetBrokers()
    })
    this.#coordinators = new Coordinators({
      clock: env.clock,
      rpc: this,
      learn: (node, host, port) => this.#links.learn(node, host, port)
    })
  }

  /** The newest value; empty before the first request. */
  get metadata(): Metadata {
    return this.#keeper.value
  }

  /** Fires when the cluster is closed, with a CLOSED error as its reason. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  /** Sends a request at once, and gives a handle of it; see `Rpc.send`. */
  send<A extends Api>(api: A, body: Body<A>, options: CallOptions = {}): Call<A> {
    const timeoutMs = options.timeoutMs ?? this.#settings.requestTimeoutMs
    const errand: Errand = {
      target: options.to ?? defaultTarget(api),
      lane: options.lane ?? api.lane,
      tried: new Set(),
      link: null,
      failures: 0,
      timer: null,
      deafen: null
    }
    const exchange = new Exchange(api, body, {
      deadline: this.env.clock.monotonic() + timeoutMs,
      timeoutMs,
      minVersion: options.minVersion,
      maxVersion: options.maxVersion,
      onSettled: (_, answer) => this.#settled(exchange, errand, answer),
      onUndelivered: (_, error) => this.#undelivered(exchange, errand, error)
    })
    this.#calls.add(exchange)
    if (this.#closed) exchange.fail(this.#closing.signal.reason as PlayheadError)
    else if (options.signal?.aborted) exchange.fail(abortError(options.signal))
    else {
      this.#deadlines.add(exchange)
      if (options.signal) errand.deafen = listen(exchange, options.signal)
      this.#dispatch(exchange, errand)
    }
    return exchange
  }

  /** Sends a request and waits for its answer; see `Rpc.request`. */
  async request<A extends Api>(
    api: A,
    body: Body<A>,
    options?: CallOptions
  ): Promise<ResponseOf<A>> {
    return (await this.send(api, body, options).response).body
  }

  /**
   * Asks for the metadata now; joins one on its way. `topics` are watched from now on, until `forget`: each
   * refresh asks for them. Topics that don't exist are left out of the value.
   */
  refresh(
    options: WaitOptions & { readonly topics?: readonly string[] | undefined } = {}
  ): Promise<Metadata> {
    if (this.#closed) return Promise.reject(this.#closing.signal.reason as PlayheadError)
    const { topics = [], timeoutMs, signal } = options
    const deadline = timeoutMs === undefined ? undefined : this.#deadline(timeoutMs)
    return this.#keeper.refresh(topics, deadline, signal)
  }

  /** Known, or asked for. Rejects with UNKNOWN_TOPIC when several answers say that it doesn't exist. */
  async topic(name: string, options: WaitOptions = {}): Promise<TopicMetadata> {
    if (this.#closed) throw this.#closing.signal.reason
    return await this.#keeper.topic(name, this.#deadline(options.timeoutMs), options.signal)
  }

  /** Every topic of the cluster, as of now. They aren't watched. */
  async listTopics(options: WaitOptions = {}): Promise<readonly TopicMetadata[]> {
    const timeoutMs = options.timeoutMs ?? this.#settings.requestTimeoutMs
    return await this.#keeper.listTopics(timeoutMs, options.signal)
  }

  /** Topics that nobody needs any more: refreshes don't ask for them. */
  forget(topics: readonly string[]): void {
    this.#keeper.forget(topics)
  }

  /** Calls `listener` with each new value. Returns what ends it. */
  watch(listener: (metadata: Metadata) => void): () => void {
    return this.#keeper.watch(listener)
  }

  /** An answer showed that the metadata is out of date: it is refreshed soon, at most once per back-off. */
  stale(why: string): void {
    this.#keeper.stale(why)
  }

  /** A broker that leads a partition no more said who does (KIP-951). */
  learned(hints: readonly LeaderHint[], endpoints: readonly LeaderEndpoint[]): void {
    this.#keeper.learned(hints, endpoints)
  }

  /** An answer said so: look the coordinator up again when it is next needed. */
  coordinatorMoved(target: CoordinatorTarget): void {
    this.#coordinators.forget(target)
  }

  /** The broker that coordinates a group or transaction, as one answer has it; kept until it moves. */
  async coordinator(target: CoordinatorTarget, options: WaitOptions = {}): Promise<number> {
    const { signal } = options
    return await this.retrying(options, (_, deadline) => {
      const known = this.#coordinators.known(target)
      if (known !== undefined) return Promise.resolve(known)
      const found = orAbort(this.#coordinators.find(target), signal)
      return before(this.env.clock, deadline, found, () => coordinatorUnknown(target))
    })
  }

  /** Whether brokers speak an API (in `minVersion` or above), judged by any one of them. */
  async supports(
    api: Api,
    minVersion: number = api.versions[0],
    { timeoutMs, signal }: WaitOptions = {}
  ): Promise<boolean> {
    const call = { to: 'any', timeoutMs, signal } as const
    const table =
      this.#links.versions ??
      versionTable((await this.request(ApiVersions, clientSoftware, call)).apiKeys)
    const range = table.get(api.key)
    return range !== undefined && range[1] >= minVersion && range[0] <= api.versions[1]
  }

  /**
   * Runs `attempt` until it returns something other than `Again`, with back-off, within `timeoutMs`; ends with
   * `signal` and with the cluster. Attempts that reject with a retriable error are tried again too.
   */
  retrying<T>(
    options: WaitOptions & { readonly backoff?: Backoff | undefined },
    attempt: (number: number, deadline: number) => Promise<T | Again>
  ): Promise<T> {
    const deadline = this.#deadline(options.timeoutMs)
    const signals = [this.#closing.signal, options.signal]
    const { backoff = callBackoff } = options
    return retrying(this.env, { deadline, signals, backoff }, n => attempt(n, deadline))
  }

  /** The same options; `timeoutMs` is what is left of it whenever it is read: the steps of a call share it. */
  within<O extends WaitOptions>(options: O): O & { readonly timeoutMs: number } {
    const deadline = this.#deadline(options.timeoutMs)
    const { clock } = this.env
    return {
      ...options,
      // Whole, as it is also told to brokers; and some time is left to say that there is none.
      get timeoutMs() {
        return Math.min(2 ** 31 - 1, Math.max(1, Math.ceil(deadline - clock.monotonic())))
      }
    }
  }

  /** Opens a connection beforehand: a request that will follow in this lane doesn't wait for one. */
  prepare(node: number, lane: LaneName): void {
    if (this.#closed === null) this.#links.get(node)?.prepare(lane)
  }

  /** Ends the connections of a lane that one user had for itself, once they are idle. */
  endLane(lane: LaneName): void {
    this.#links.endLane(lane)
  }

  /** Every call under way rejects with CLOSED; resolves when no connection and no timer is left. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  /** The same as `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #close(): Promise<void> {
    const why = new PlayheadError('CLOSED', 'the client was closed')
    this.#closing.abort(why)
    const closed = this.#links.close(why)
    for (const exchange of this.#calls) exchange.fail(why)
    this.#coordinators.close(why)
    this.#keeper.close()
    this.#deadlines.close()
    await closed
  }

  #deadline(timeoutMs = this.#settings.requestTimeoutMs): number {
    return this.env.clock.monotonic() + timeoutMs
  }

  /** Finds the link, at once when it is known. */
  #dispatch(exchange: Exchange, errand: Errand): void {
    const link = this.#locate(errand.target, errand.tried)
    if (!(link instanceof Promise)) return this.#hand(exchange, errand, link)
    link.then(
      found => {
        if (!exchange.settled) this.#hand(exchange, errand, found)
      },
      (error: Error) => {
        if (error instanceof PlayheadError) exchange.undelivered(notFound(error))
        else exchange.fail(error)
      }
    )
  }

  #hand(exchange: Exchange, errand: Errand, link: Link): void {
    errand.link = link
    link.send(exchange, errand.lane)
  }

  #locate(target: Target, tried: Set<Link>): Link | Promise<Link> {
    if (target === 'any') return this.#any(tried)
    if (target === 'controller') {
      return this.#links.get(this.metadata.controller) ?? this.#controller()
    }
    if ('node' in target) return this.#links.get(target.node) ?? this.#node(target.node)
    if ('leader' in target) {
      const { topic, partition } = target.leader
      return this.#links.get(leaderOf(this.metadata, topic, partition)) ?? this.#leader(target)
    }
    const known = this.#coordinators.known(target)
    return (known === undefined ? undefined : this.#links.get(known)) ?? this.#coordinator(target)
  }

  #any(tried: Set<Link>): Link | Promise<Link> {
    let link = this.#links.any(tried)
    if (!link) {
      tried.clear()
      link = this.#links.any(tried)
    }
    return link ?? Promise.reject(nobody('no broker is known'))
  }

  async #node(node: number): Promise<Link> {
    await this.refresh()
    const link = this.#links.get(node)
    if (link) return link
    const known = [...this.metadata.brokers.keys()].join(', ')
    throw nobody(`broker ${node} is not there; there are: ${known}`)
  }

  async #controller(): Promise<Link> {
    const { controller } = await this.refresh()
    const link = this.#links.get(controller)
    if (link) return link
    throw nobody('the cluster has no controller at present')
  }

  async #leader({ leader: { topic, partition } }: LeaderTarget): Promise<Link> {
    await this.#keeper.topic(topic, this.#deadline())
    if (leaderOf(this.metadata, topic, partition) < 0) await this.refresh()
    const { partitions = [] } = this.metadata.topics.get(topic) ?? {}
    if (!(partition in partitions)) {
      const message = `topic '${topic}' has no partition ${partition}: it has ${partitions.length}`
      throw new PlayheadError('UNKNOWN_PARTITION', message, { topic, partition })
    }
    const link = this.#links.get(leaderOf(this.metadata, topic, partition))
    if (link) return link
    throw nobody(`partition ${topic}-${partition} has no leader at present`, { topic, partition })
  }

  async #coordinator(target: CoordinatorTarget): Promise<Link> {
    const link = this.#links.get(await this.#coordinators.find(target))
    if (link) return link
    this.#coordinators.forget(target)
    throw nobody('the coordinator is a broker that is not there')
  }

  /** Nothing was written: a role may be somebody else's by now. */
  #undelivered(exchange: Exchange, errand: Errand, error: PlayheadError): void {
    const { target, link, tried } = errand
    if (typeof target === 'object' && 'node' in target) return exchange.fail(error)
    if (target === 'any' && link) {
      tried.add(link)
      if (this.#links.any(tried)) return this.#dispatch(exchange, errand)
    } else if (typeof target === 'object' && !('leader' in target)) {
      this.#coordinators.forget(target)
    } else this.stale(error.message)
    errand.failures++
    const delayMs = backoffMs(this.env.random, callBackoff, errand.failures)
    errand.timer = this.env.clock.after(delayMs, () => {
      errand.timer = null
      this.#dispatch(exchange, errand)
    })
  }

  #settled(exchange: Exchange, errand: Errand, answer: Answer<Api> | null): void {
    this.#calls.delete(exchange)
    this.#deadlines.remove(exchange)
    errand.timer?.cancel()
    errand.deafen?.()
    const { target } = errand
    if (!answer || target === 'any' || (typeof target === 'object' && 'node' in target)) return
    this.#takeHint(target, errorCodesOf(exchange.api, answer.body))
  }

  #takeHint(target: Target, codes: ReadonlySet<number>): void {
    if (typeof target === 'object' && ('group' in target || 'transaction' in target)) {
      if (
        codes.has(KafkaError.NOT_COORDINATOR) ||
        codes.has(KafkaError.COORDINATOR_NOT_AVAILABLE)
      ) {
        this.#coordinators.forget(target)
      }
      return
    }
    for (const code of codes) {
      if (outdated.has(code)) return this.stale(answerError(code, 'a request').message)
    }
  }

  #onTrouble(link: Link, error: PlayheadError): void {
    if (this.#closed) return
    const { host, port } = link.address
    this.env.log.debug('trouble with a broker', { node: link.node, host, port, error })
    this.#keeper.trouble = error
    this.#coordinators.forgetNode(link.node)
    // Before the first answer there is nothing to be out of date.
    if (this.metadata.at > -Infinity) this.stale(error.message)
  }
}

type LeaderTarget = Extract<Target, { readonly leader: unknown }>

/** Codes that say: the metadata that led here is old. */
const outdated: ReadonlySet<number> = new Set([
  KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
  KafkaError.LEADER_NOT_AVAILABLE,
  KafkaError.NOT_LEADER_OR_FOLLOWER,
  KafkaError.REPLICA_NOT_AVAILABLE,
  KafkaError.NOT_CONTROLLER,
  KafkaError.KAFKA_STORAGE_ERROR,
  KafkaError.FENCED_LEADER_EPOCH,
  KafkaError.UNKNOWN_LEADER_EPOCH,
  KafkaError.UNKNOWN_TOPIC_ID,
  KafkaError.INCONSISTENT_TOPIC_ID
])

function defaultTarget(api: Api): Target {
  if (api.to === 'any' || api.to === 'controller') return api.to
  const help = `say \`to\`: ${api.name} goes to a ${api.to}`
  throw new PlayheadError('INVALID_ARGUMENT', help)
}

function nobody(message: string, details: Omit<ErrorDetails, 'retriable'> = {}): PlayheadError {
  return new PlayheadError('CONNECTION_FAILED', message, { retriable: true, ...details })
}

function coordinatorUnknown(target: CoordinatorTarget): PlayheadError {
  const whose = 'group' in target ? `group '${target.group}'` : `'${target.transaction}'`
  const message = `the coordinator of ${whose} was not found within the time given`
  return new PlayheadError('TIMED_OUT', message, { retriable: true })
}

/** A look-up that failed in passing says nothing about the call, of which no byte was written. */
function notFound(error: PlayheadError): PlayheadError {
  const passing = error.code === 'TIMED_OUT' || error.code === 'CONNECTION_LOST'
  return passing && !error.retriable ? nobody(error.message, { cause: error }) : error
}

function listen(exchange: Exchange, signal: AbortSignal): () => void {
  return onAbort(signal, () => exchange.fail(abortError(signal)))
}
