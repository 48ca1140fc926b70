/**
 * The log, as producers and readers saw it: each offset has one value, each value one place, nothing acknowledged is
 * lost, nothing refused or aborted is seen (invariants L1 to L5, L7; with the final read D1 to D5, and L9).
 */
import { type Checker, type Happened, type Of, type Tp, Violation } from '../history/events.ts'
import { partitionOfValue } from '../history/values.ts'

interface Sent {
  readonly tp: Tp
  readonly tx: string | undefined
  readonly once: boolean
  readonly producer: string
  /** In which order the producer sent. */
  readonly order: number
  state: 'sent' | 'ok' | 'failed' | 'unknown'
  offset: number
  delivered: boolean
  final: boolean
}

export class LogChecker implements Checker {
  readonly #sent = new Map<string, Sent>()
  /** offset → value, per partition. */
  readonly #log = new Map<Tp, Map<number, string>>()
  readonly #starts = new Map<Tp, number>()
  readonly #highestDelivered = new Map<Tp, number>()
  /** The latest acknowledged send per producer and partition. */
  readonly #latestOk = new Map<string, Sent>()
  readonly #ended = new Map<string, Of<'tx'>['end']>()
  readonly #committedOnly = new Map<string, boolean>()
  readonly #finalEnds = new Map<Tp, number>()
  #orders = 0

  on(event: Happened): void {
    switch (event.k) {
      case 'send':
        this.#sent.set(event.v, {
          tp: event.tp,
          tx: event.tx,
          once: event.once,
          producer: `${event.node}.${event.inc}`,
          order: this.#orders++,
          state: 'sent',
          offset: -1,
          delivered: false,
          final: false
        })
        return
      case 'send.ok':
        return this.#acknowledged(event)
      case 'send.fail':
      case 'send.info':
        return this.#notAcknowledged(event)
      case 'tx':
        this.#ended.set(event.tx, event.end)
        return
      case 'join':
        this.#committedOnly.set(event.member, event.committedOnly)
        return
      case 'deliver':
        return this.#delivered(event, this.#committedOnly.get(event.member) ?? true)
      case 'final':
        return this.#delivered(event, true)
      case 'cut':
        this.#starts.set(event.tp, Math.max(event.start, this.#starts.get(event.tp) ?? 0))
        return
      case 'final.end':
        this.#finalEnds.set(event.tp, event.end)
        return
      default:
    }
  }

  #acknowledged(event: Of<'send.ok'>): void {
    const sent = this.#its(event.v, event)
    sent.state = 'ok'
    if (event.offset < 0) return
    this.#place(event.tp, event.offset, event.v, event)
    sent.offset = event.offset
    if (!sent.once) return
    const key = `${sent.producer} ${sent.tp}`
    const before = this.#latestOk.get(key)
    if (before === undefined || before.order < sent.order) {
      if (before !== undefined && before.offset >= sent.offset) {
        throw new Violation(
          'L7',
          `${event.v} was sent after a record at ${before.offset} and is at ${sent.offset}`,
          event
        )
      }
      this.#latestOk.set(key, sent)
    } else if (before.offset <= sent.offset) {
      throw new Violation('L7', `${event.v} is behind a record that was sent after it`, event)
    }
  }

  #notAcknowledged(event: Of<'send.fail' | 'send.info'>): void {
    const sent = this.#its(event.v, event)
    sent.state = event.k === 'send.fail' ? 'failed' : 'unknown'
    if (sent.state === 'failed' && sent.delivered) {
      throw new Violation('L5', `${event.v} is said not to be written, and was delivered`, event)
    }
  }

  #delivered(event: Of<'deliver'> | Of<'final'>, committedOnly: boolean): void {
    const { tp, offset, v } = event
    if (v.startsWith('damaged')) throw new Violation('L2', `${tp}@${offset}: ${v}`, event)
    const sent = this.#its(v, event)
    if (partitionOfValue(v) !== tp) {
      throw new Violation('L2', `${v} was delivered from ${tp}`, event)
    }
    this.#place(tp, offset, v, event)
    if (sent.state === 'failed') {
      throw new Violation('L5', `${v} is said not to be written, and was delivered`, event)
    }
    if (committedOnly && sent.tx !== undefined && this.#ended.get(sent.tx) === 'aborted') {
      throw new Violation('L5', `${v} of the aborted transaction ${sent.tx} was delivered`, event)
    }
    sent.delivered = true
    if (event.k === 'final') sent.final = true
    this.#highestDelivered.set(tp, Math.max(offset, this.#highestDelivered.get(tp) ?? -1))
  }

  #place(tp: Tp, offset: number, v: string, event: Happened): void {
    const log = this.#log.get(tp) ?? new Map<number, string>()
    this.#log.set(tp, log)
    const there = log.get(offset)
    if (there !== undefined && there !== v) {
      throw new Violation('L1', `${tp}@${offset} was ${there}, and is ${v}`, event)
    }
    log.set(offset, v)
    const sent = this.#its(v, event)
    if (sent.once && sent.offset >= 0 && sent.offset !== offset) {
      throw new Violation('L2', `${v} is at ${sent.offset} and at ${offset}`, event)
    }
    sent.offset = offset
  }

  #its(v: string, event: Happened): Sent {
    const sent = this.#sent.get(v)
    if (sent === undefined) throw new Violation('L2', `${v} was never sent`, event)
    return sent
  }

  end(): void {
    if (this.#finalEnds.size === 0) return
    const visible = new Map<string, boolean>()
    for (const [v, sent] of this.#sent) {
      this.#checkEnd(v, sent)
      this.#checkWhole(v, sent, visible)
    }
  }

  #checkEnd(v: string, sent: Sent): void {
    const cut = sent.offset >= 0 && sent.offset < (this.#starts.get(sent.tp) ?? 0)
    const expected = sent.state === 'ok' && this.#visible(sent) && sent.offset !== -1
    if (!expected || cut || sent.final || !this.#finalEnds.has(sent.tp)) return
    const lost = sent.offset < (this.#highestDelivered.get(sent.tp) ?? -1) && !sent.delivered
    throw new Violation(lost ? 'L3' : 'L4', `${v}, acknowledged at ${sent.offset}, is gone`)
  }

  /** Part of a transaction visible: all of it is. */
  #checkWhole(v: string, sent: Sent, visible: Map<string, boolean>): void {
    if (sent.tx === undefined || sent.state === 'failed' || sent.state === 'sent') return
    if (sent.offset >= 0 && sent.offset < (this.#starts.get(sent.tp) ?? 0)) return
    if (this.#ended.get(sent.tx) === undefined || !this.#finalEnds.has(sent.tp)) return
    // Of a send whose outcome is unknown nothing follows, unless it is visible.
    if (sent.state === 'unknown' && !sent.final) return
    const other = visible.get(sent.tx)
    visible.set(sent.tx, sent.final)
    if (other !== undefined && other !== sent.final) {
      throw new Violation(
        'L5',
        `the transaction ${sent.tx} is torn: ${v} ${sent.final ? 'is' : 'is not'} visible`
      )
    }
  }

  #visible(sent: Sent): boolean {
    return sent.tx === undefined || this.#ended.get(sent.tx) === 'committed'
  }
}
