/**
 * What an in-memory network asks before anything arrives: when, and in which pieces. The simulation's faults
 * are wires: a clog or a partition (asymmetric, as each direction is asked on its own) answers `Infinity` and
 * later calls `retry`; a half-open connection is one whose directions are held for ever; a reset in mid-frame
 * is `'reset'`; bytes that arrive long after their sender closed are a long delay.
 */

import type { Random } from '../base/env.ts'

/** One direction of one connection. */
export interface Link {
  /** Counts the network's connections, from 1. */
  readonly connection: number
  readonly from: string
  readonly to: string
  /** Bytes of the side that dialled, or of the one that accepted. */
  readonly direction: 'request' | 'answer'
}

export interface Carriage {
  /** How many bytes arrive as one chunk: at least 1, at most what was asked about. */
  readonly bytes: number
  /** From when the last of them was sent. Order within a link is kept whatever it is. `Infinity`: held. */
  readonly delayMs: number
}

export interface Wire {
  /**
   * A connection is dialled: ms until the other side hears of it; `Infinity`: held. Asked for the call, and
   * then for its answer, with which the connection is open.
   */
  dial(link: Link): number | 'refused'
  /** `bytes` are on their way; 0 means that only the stream's end is. `'reset'` cuts the connection for both. */
  carry(link: Link, bytes: number): Carriage | 'reset'
  /** The sender destroyed its socket, or died, with `bytes` on their way: how many of them still arrive. */
  lose(link: Link, bytes: number): number
}

/** Does no harm: every byte arrives, within `mostMs`, in chunks cut and merged anywhere. */
export function fairWire(random: Random, leastMs = 0.05, mostMs = 1): Wire {
  const delay = () => leastMs + random.next() * (mostMs - leastMs)
  return {
    dial: delay,
    carry: (_link, bytes) => ({ bytes: cut(random, bytes), delayMs: delay() }),
    lose: (_link, bytes) => Math.floor(random.next() * (bytes + 1))
  }
}

/** Half the time all there is, else any part, and now and then a few bytes: within a frame's length. */
function cut(random: Random, bytes: number): number {
  const kind = random.next()
  if (kind < 0.5) return bytes
  const most = kind < 0.9 ? bytes : Math.min(bytes, 8)
  return Math.min(bytes, 1 + Math.floor(random.next() * most))
}
