/**
 * Faults for tests: what a request meets on its way to its handler is in the test's hand. A rule looks at requests of
 * one API; the first that says something decides.
 *
 *   broker.control.on('Produce', { topic: 'orders', partition: 0, count: 2 }, { error: 'NOT_LEADER_OR_FOLLOWER' })
 *   const stop = broker.control.on('Fetch', request => { seen.push(request); return undefined })
 */
import type { Timer } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'
import { apis } from '../protocol/apis.ts'
import { KafkaError, type KafkaErrorName } from '../protocol/errors.ts'
import type { Api, RequestRead } from '../protocol/schema.ts'
import { errorAnswer } from './error-answer.ts'
import type { Context, Handler, Reply } from './handler.ts'
import type { ShiftedClock } from './shifted-clock.ts'

/** A request as a rule sees it. */
export interface SeenRequest {
  /** The API's name, as 'Fetch'. */
  readonly api: string
  /** The broker that was asked. */
  readonly node: number
  /** The API's version that it is written in; the answer will be, too. */
  readonly version: number
  /** What the client calls itself; '' when it doesn't. */
  readonly clientId: string
  /** The request's body as it was read; the API's declaration says what is in it. */
  readonly body: { readonly [field: string]: unknown }
}

/** What happens to a request. */
export type Fault =
  /** It is neither handled nor answered. */
  | 'drop'
  /** It is handled, and its answer is lost. */
  | 'drop answer'
  /** The connection ends in order (close) or hard (reset), and the request is not handled. */
  | 'close'
  | 'reset'
  /** It is handled, and then the connection is reset instead of the answer. */
  | 'reset after'
  /** It is not handled; this error stands everywhere in the answer where one can. */
  | { readonly error: KafkaErrorName }
  /** It is not handled; this is the answer's body. */
  | { readonly answer: { readonly [field: string]: unknown } }
  /** It is handled so much later. */
  | { readonly delayMs: number }
  /** It is handled when this resolves. */
  | { readonly hold: Promise<unknown> }
  /** It is handled at once, and answered so much later. */
  | { readonly answerAfterMs: number }
  /** The connection is reset now, and the request is handled so much later: a late write. */
  | { readonly lateMs: number }

/** Which requests a rule is about; all that is said must hold. */
export interface Filter {
  /** The broker that is asked. */
  readonly node?: number | undefined
  /** Whole, as the client calls itself. */
  readonly clientId?: string | undefined
  /** A topic that is named somewhere in the request, or whose id is. */
  readonly topic?: string | undefined
  /** A partition named in the request: of `topic`, when that is said too. */
  readonly partition?: number | undefined
  /** The group that the request is for, or that it looks up. */
  readonly group?: string | undefined
  /** Only the first so many of those. Default: all, until the rule is removed. */
  readonly count?: number | undefined
}

/** Looks at each request of its API: what it returns happens to it; undefined: the next rule is asked, and at last nothing does. */
export type Rule = (request: SeenRequest) => Fault | undefined | void

/** The hand of a test in a broker. */
export interface Control {
  /**
   * Adds a rule for an API, by its name ('Fetch'), or '*' for all: a function that sees every request, or which requests
   * suffer what. Rules of the API are asked before those of '*', each in the order they were added. Returns how to remove it.
   * @throws PlayheadError INVALID_ARGUMENT when Kafka has no such API.
   */
  on(api: string, rule: Rule): () => void
  /** The same for all requests that fit a filter. */
  on(api: string, filter: Filter, fault: Fault): () => void
  /** Removes every rule. What is under way is not touched. */
  clear(): void
  /**
   * So much time passes at once for the broker, by every clock it has: sessions run out, records grow old, idle connections
   * end, what was delayed comes, all before this returns. It goes on from there, and never back.
   * @throws PlayheadError INVALID_ARGUMENT when `ms` is not a finite number of at least 0.
   */
  advance(ms: number): void
}

/** The rules in force, and what they do to a request. */
export class Faults implements Control {
  readonly #clock: ShiftedClock
  readonly #topicName: (id: string) => string | undefined
  readonly #rules = new Map<string, Set<Rule>>()
  readonly #timers = new Set<Timer>()

  constructor(clock: ShiftedClock, topicName: (id: string) => string | undefined) {
    this.#clock = clock
    this.#topicName = topicName
  }

  on(api: string, rule: Rule): () => void
  on(api: string, filter: Filter, fault: Fault): () => void
  on(api: string, first: Rule | Filter, fault?: Fault): () => void {
    if (api !== '*' && !apis.some(({ name }) => name === api)) {
      throw new PlayheadError('INVALID_ARGUMENT', `Kafka has no API '${api}'`)
    }
    const rule = typeof first === 'function' ? first : this.#ruleOf(first, fault)
    const rules = this.#rules.get(api) ?? new Set()
    this.#rules.set(api, rules.add(rule))
    return () => rules.delete(rule)
  }

  clear(): void {
    this.#rules.clear()
  }

  advance(ms: number): void {
    if (!Number.isFinite(ms) || ms < 0) {
      throw new PlayheadError('INVALID_ARGUMENT', `time does not pass by ${ms} ms`)
    }
    this.#clock.advance(ms)
  }

  /** Whether a rule may see the next request, and keep it. */
  get hasRules(): boolean {
    return this.#rules.size > 0
  }

  /** What was delayed never comes. */
  close(): void {
    for (const timer of this.#timers) timer.cancel()
    this.#timers.clear()
    this.#rules.clear()
  }

  /** Takes the request through the rules to its handler. */
  handle(
    handler: Handler,
    request: RequestRead<Api>,
    context: Context
  ): Reply<Api> | Promise<Reply<Api>> {
    if (!this.hasRules) return handler.handle(request, context)
    const fault = this.#faultFor(handler.api, request, context)
    if (fault === undefined) return handler.handle(request, context)
    return this.#suffer(fault, handler, request, context)
  }

  #faultFor(api: Api, request: RequestRead<Api>, context: Context): Fault | undefined {
    const { node, version, clientId } = context
    const seen = { api: api.name, node, version, clientId, body: request }
    for (const name of [api.name, '*']) {
      for (const rule of this.#rules.get(name) ?? []) {
        const fault = rule(seen)
        if (fault !== undefined) return fault
      }
    }
    return undefined
  }

  async #suffer(
    fault: Fault,
    handler: Handler,
    request: RequestRead<Api>,
    context: Context
  ): Promise<Reply<Api>> {
    const { connection } = context
    const handle = () => handler.handle(request, context)
    if (typeof fault === 'string') {
      if (fault === 'drop') return never
      if (fault === 'close' || fault === 'reset') connection.end(fault === 'reset')
      else {
        await handle()
        if (fault === 'reset after') connection.end(true)
      }
      return never
    }
    if ('error' in fault)
      return errorAnswer(handler.api, context.version, request, KafkaError[fault.error])
    if ('answer' in fault) return fault.answer
    if ('lateMs' in fault) {
      connection.end(true)
      await this.#sleep(fault.lateMs)
      await handle()
      return never
    }
    if ('hold' in fault) await fault.hold
    if ('delayMs' in fault) await this.#sleep(fault.delayMs)
    const reply = await handle()
    if ('answerAfterMs' in fault) await this.#sleep(fault.answerAfterMs)
    return reply
  }

  #sleep(delayMs: number): Promise<void> {
    return new Promise(resolve => {
      const timer = this.#clock.after(delayMs, () => {
        this.#timers.delete(timer)
        resolve()
      })
      this.#timers.add(timer)
    })
  }

  #ruleOf(filter: Filter, fault: Fault | undefined): Rule {
    let left = filter.count ?? Infinity
    return request => {
      if (!this.#fits(filter, request) || left <= 0) return undefined
      left--
      return fault
    }
  }

  #fits({ node, clientId, topic, partition, group }: Filter, request: SeenRequest): boolean {
    if (node !== undefined && node !== request.node) return false
    if (clientId !== undefined && clientId !== request.clientId) return false
    if (group !== undefined && !isAbout(request.body, group)) return false
    if (topic === undefined && partition === undefined) return true
    return this.#names(request.body, topic, partition)
  }

  /** Whether some array of the request has an entry for the topic, and in it one for the partition. */
  #names(value: unknown, topic: string | undefined, partition: number | undefined): boolean {
    if (Array.isArray(value)) return value.some(one => this.#names(one, topic, partition))
    if (typeof value !== 'object' || value === null || Buffer.isBuffer(value)) return false
    const {
      name,
      topic: named,
      topicId
    } = value as { name?: unknown; topic?: unknown; topicId?: unknown }
    const byId = typeof topicId === 'string' ? this.#topicName(topicId) : undefined
    const isTopic = topic !== undefined && [name, named, byId].includes(topic)
    if (isTopic && partition === undefined) return true
    if (isTopic || topic === undefined) return hasPartition(Object.values(value), partition)
    return Object.values(value).some(one => this.#names(one, topic, partition))
  }
}

/** Never settles: its request is not answered. Nothing else holds on to it. */
const never = new Promise<never>(() => {})

function isAbout(body: SeenRequest['body'], group: string): boolean {
  if (body['groupId'] === group || body['key'] === group) return true
  const { groups, coordinatorKeys } = body
  const several = [
    ...(Array.isArray(groups) ? groups : []),
    ...(Array.isArray(coordinatorKeys) ? coordinatorKeys : [])
  ]
  return several.some(one => one === group || (one as { groupId?: unknown }).groupId === group)
}

const indexNames = ['partition', 'partitionIndex', 'index']

function hasPartition(values: readonly unknown[], partition: number | undefined): boolean {
  return values.some(value => {
    if (!Array.isArray(value)) return false
    return value.some(one => {
      if (one === partition) return true
      if (typeof one !== 'object' || one === null) return false
      const fields = one as { readonly [field: string]: unknown }
      return (
        indexNames.some(name => fields[name] === partition) ||
        hasPartition(Object.values(fields), partition)
      )
    })
  })
}
