/**
 * The history of a run: what checkers work from, and nothing else. The vocabulary is the same for the simulation, the
 * embedded broker and a real Kafka (invariants.md 2.0), so a checker never knows where a history comes from.
 *
 * `at`: who observed it. Partitions are written `topic:partition`, and so are keys of maps; values of records are
 * names that occur once (see values.ts).
 */

/** 'orders:0' */
export type Tp = string

export function topicOf(tp: Tp): string {
  return tp.slice(0, tp.lastIndexOf(':'))
}

/** Ordered as strings; '0': none yet. */
export type RewindId = string

export type Offsets = Readonly<Record<Tp, number>>

export type Happening =
  // ── Producing. `ok` at an offset (-1: written, but where is not known), `fail`: surely not written, `info`: unknown.
  // `once`: by an idempotent producer, so written once and in order.
  | {
      readonly k: 'send'
      readonly v: string
      readonly tp: Tp
      readonly once: boolean
      readonly tx?: string
      /** What it was made of, by a group: a record, as it was delivered. */
      readonly of?: {
        readonly group: string
        readonly tp: Tp
        readonly offset: number
        readonly rewindId: RewindId
      }
    }
  | { readonly k: 'send.ok'; readonly v: string; readonly tp: Tp; readonly offset: number }
  | { readonly k: 'send.fail' | 'send.info'; readonly v: string; readonly why: string }
  /** A transaction is about to take offsets: at which rewind the work in it began, per partition. */
  | {
      readonly k: 'tx.offsets'
      readonly tx: string
      readonly member: string
      readonly at: Readonly<Record<Tp, RewindId>>
    }
  | { readonly k: 'tx'; readonly tx: string; readonly end: 'committed' | 'aborted' | 'unknown' }
  // ── Consuming. A membership is one consumer object: `member` names it, once in a run.
  | {
      readonly k: 'join'
      readonly member: string
      readonly group: string
      readonly committedOnly: boolean
      readonly sessionMs: number
      /** Where the group begins. Default: at the first record. */
      readonly startFrom?: 'earliest' | 'latest' | undefined
      /** Within so long it joins a rebalance, or is out. Default: longer than a session. */
      readonly rebalanceMs?: number
      /** What it subscribes to. Default: all that there is. */
      readonly topics?: readonly string[]
    }
  | { readonly k: 'assigned'; readonly member: string; readonly tps: readonly Tp[] }
  | { readonly k: 'lost'; readonly member: string; readonly tps: readonly Tp[] }
  // `drained`: the consumer says that what was handled is committed: nothing went wrong, and it commits by itself.
  | {
      readonly k: 'revoked'
      readonly member: string
      readonly tps: readonly Tp[]
      readonly drained?: boolean
    }
  /** A member of a group that a controller leads registers without these: it has stopped, and anybody may have them. */
  | { readonly k: 'yielded'; readonly member: string; readonly tps: readonly Tp[] }
  | { readonly k: 'left'; readonly member: string; readonly drained?: boolean }
  | {
      readonly k: 'deliver'
      readonly member: string
      readonly tp: Tp
      readonly offset: number
      readonly v: string
      readonly rewindId: RewindId
    }
  | {
      readonly k: 'handled'
      readonly member: string
      readonly tp: Tp
      readonly offset: number
      /** Of a handler that has a signal: whether it had fired. */
      readonly signalled?: boolean
    }
  | {
      readonly k: 'seek'
      readonly member: string
      readonly tp: Tp
      /** Where it stood. Default: anywhere before. */
      readonly from?: number
      readonly to: number
    }
  /** The consumer ended reading by an error, though nobody closed it. */
  | { readonly k: 'ended'; readonly member: string; readonly why: string }
  /** The position, as the consumer says, with all before it processed or passed over. */
  | { readonly k: 'stands'; readonly member: string; readonly tp: Tp; readonly to: number }
  /** What came from here on is asked for again: a transaction with it was aborted. */
  | { readonly k: 'again'; readonly member: string; readonly tp: Tp; readonly to: number }
  /** The position moved by itself: the log was cut. */
  | {
      readonly k: 'moved'
      readonly member: string
      readonly tp: Tp
      readonly from?: number
      readonly to: number
    }
  // ── Rewinding. `w` names the call. `applied`: inside the owner; from here on it delivers from `to`.
  | { readonly k: 'rewind'; readonly w: string; readonly group: string; readonly to: Offsets }
  | {
      readonly k: 'rewind.ok'
      readonly w: string
      readonly id: RewindId
      readonly applied: Offsets
      readonly superseded: readonly Tp[]
    }
  | { readonly k: 'rewind.fail' | 'rewind.info'; readonly w: string; readonly why: string }
  | {
      readonly k: 'applied'
      readonly member: string
      readonly tp: Tp
      readonly id: RewindId
      readonly from: number
      readonly to: number
    }
  /** The application of an owner is told of a rewind, before it takes effect. */
  | {
      readonly k: 'announced'
      readonly member: string
      readonly id: RewindId
      readonly tps: readonly Tp[]
    }
  // ── What the coordinator did (a probe in the broker; not to be had from a real Kafka).
  | {
      readonly k: 'group.gen'
      readonly group: string
      readonly gen: number
      readonly owners: Readonly<Record<Tp, string>>
    }
  | {
      readonly k: 'commit.applied'
      readonly group: string
      readonly tp: Tp
      readonly offset: number
      /** Null: no envelope, so not by a Playhead consumer. */
      readonly rewindId: RewindId | null
      readonly member: string
      /** The connection that brought it: a lower one than the member's latest is a late commit. */
      readonly connection: number
      /** Which `commit.try` it was. */
      readonly commit?: number
    }
  /** A commit is being handled; if its end is not seen, because the broker ended, it may have been applied. */
  | {
      readonly k: 'commit.try'
      readonly commit: number
      readonly group?: string
      /** As whom, by the coordinator's id, and with which generation or member epoch. */
      readonly memberId?: string
      readonly epoch?: number
    }
  | { readonly k: 'commit.end'; readonly commit: number }
  /** A caller wrote an entry to the group's ledger. */
  | {
      readonly k: 'ledger'
      readonly group: string
      readonly tp: Tp
      readonly id: RewindId
      readonly target: number
      readonly state: string
      /** Of a bounded replay: where it ends, and where the group goes on at least. */
      readonly window?: { readonly until: number; readonly resume: number }
      /** By a controller, which has no ledger: 'done' means that it refuses commits from before. */
      readonly led?: true
    }
  /** Offsets were reset from outside, on purpose. */
  | { readonly k: 'reset'; readonly group: string; readonly tp: Tp; readonly offset: number }
  // ── The log, as a fresh reader found it at the end, and as it was cut.
  | { readonly k: 'cut'; readonly tp: Tp; readonly start: number }
  /** These may be there from now on; the topic may be gone from now on. */
  | { readonly k: 'created'; readonly tps: readonly Tp[] }
  | { readonly k: 'topic.deleted'; readonly topic: string }
  | { readonly k: 'final'; readonly tp: Tp; readonly offset: number; readonly v: string }
  | { readonly k: 'final.end'; readonly tp: Tp; readonly start: number; readonly end: number }
  // ── Calls that must settle, and the rest of the world.
  | { readonly k: 'call'; readonly call: string; readonly deadlineMs: number }
  | { readonly k: 'settled'; readonly call: string }
  | { readonly k: 'start' | 'crash' | 'pause' | 'resume' | 'power.loss' }
  /** The coordinator answered a member well: in which generation or member epoch it is, if that was said. */
  | {
      readonly k: 'heartbeat'
      readonly member: string
      readonly group?: string
      readonly memberId?: string
      readonly epoch?: number
      /** It came anew: epochs begin again. */
      readonly joins?: boolean
      /** It was sent on a connection that the member has closed since: nobody hears the answer. */
      readonly late?: boolean
      /** How long it waits for news at most; default 1,000. */
      readonly everyMs?: number
    }
  | { readonly k: 'fault'; readonly what: string; readonly on: boolean }
  | { readonly k: 'healed' }
  /** Nothing is sent any more, and all that was sent is handled. */
  | { readonly k: 'quiet' }
  | { readonly k: 'closed'; readonly leftovers: string }
  | { readonly k: 'uncaught'; readonly error: string }
  | { readonly k: 'busy'; readonly events: number }

export type Happened = Happening & {
  /** Order of observation. */
  readonly i: number
  /** ms on one monotonic clock. */
  readonly t: number
  readonly node: string
  /** Which process of the node. */
  readonly inc: number
}

export type Kind = Happening['k']
export type Of<K extends Kind> = Extract<Happened, { readonly k: K }>

/** A rule of invariants.md that did not hold. */
export class Violation extends Error {
  override readonly name = 'Violation'
  readonly rule: string
  readonly event: Happened | undefined

  constructor(rule: string, message: string, event?: Happened) {
    super(`${rule}: ${message}`)
    this.rule = rule
    this.event = event
  }
}

export interface Checker {
  /** Throws `Violation`. */
  on(event: Happened): void
  /** The run is over, the final read done. */
  end?(): void
}
