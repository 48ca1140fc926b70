/**
 * Moments and durations as people write them, for the API and the command line alike. What could mean two
 * things is refused: a date without a zone is another moment on another machine.
 */
import { PlayheadError } from '../base/error.ts'

/** '500ms', '90s', '15m', '2h', '1d', '1w', or a number of milliseconds. */
export type Duration = string | number

/** A moment: so long ago, or a time (a date, epoch milliseconds, or text that `parseTime` takes). */
export type Moment = { readonly ago: Duration } | { readonly time: Date | string | number }

const units: ReadonlyMap<string, number> = new Map([
  ['ms', 1],
  ['s', 1_000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
  ['w', 604_800_000]
])

/** Milliseconds. Throws INVALID_ARGUMENT. */
export function parseDuration(duration: Duration): number {
  const [, amount = '', unit = ''] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d|w)$/.exec(String(duration)) ?? []
  const ms = typeof duration === 'number' ? duration : Number(amount) * (units.get(unit) ?? NaN)
  if (amount === '' && typeof duration !== 'number') throw notADuration(duration)
  if (!Number.isFinite(ms) || ms < 0) throw notADuration(duration)
  return ms
}

/**
 * Epoch milliseconds, given what time it is. Takes a date, epoch milliseconds, '@1764510212345', ISO 8601 with
 * a zone ('2026-10-01T12:00Z', '2026-10-01 12:00:30+02:00'), or '01:00': when this machine's clock last showed
 * that. Throws INVALID_ARGUMENT.
 */
export function parseTime(time: Date | string | number, now: number): number {
  const ms = typeof time === 'string' ? parseText(time.trim(), now) : Number(time)
  if (Number.isSafeInteger(ms) && ms >= 0) return ms
  throw new PlayheadError('INVALID_ARGUMENT', `${String(time)} is not a time`)
}

/** Epoch milliseconds of a moment. Throws INVALID_ARGUMENT. */
export function timestampOf(moment: Moment, now: number): number {
  if ('time' in moment) return parseTime(moment.time, now)
  return Math.max(0, Math.floor(now - parseDuration(moment.ago)))
}

const isoPattern =
  /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?)?(Z|[+-]\d\d(?::?\d\d)?)?$/i

function parseText(text: string, now: number): number {
  if (/^@\d{1,16}$/.test(text)) return Number(text.slice(1))
  const clock = /^(\d\d?):(\d\d)$/.exec(text)
  if (clock) return lastTime(Number(clock[1]), Number(clock[2]), now)
  const [whole, date, time = '00:00', seconds = '00', fraction = '0', zone] =
    isoPattern.exec(text) ?? []
  if (whole === undefined) throw notATime(text)
  if (zone === undefined) {
    const example = `${date}T${time}Z`
    throw new PlayheadError('INVALID_ARGUMENT', `${text}: of which zone? Write it as in ${example}`)
  }
  const offset = /^[+-]\d\d$/.test(zone) ? `${zone}:00` : zone.replace(/^(...)(\d\d)$/, '$1:$2')
  const ms = Date.parse(`${date}T${time}:${seconds}.${fraction.slice(0, 3)}${offset.toUpperCase()}`)
  // Date.parse takes the 30th of February for the 2nd of March.
  if (Number.isNaN(ms) || !exists(date ?? '')) throw notATime(text)
  return ms
}

function exists(date: string): boolean {
  const ms = Date.parse(`${date}T00:00:00.000Z`)
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(date)
}

/** When a clock on the wall last showed it. */
function lastTime(hours: number, minutes: number, now: number): number {
  if (hours > 23 || minutes > 59) throw notATime(`${hours}:${minutes}`)
  const date = new Date(now)
  date.setHours(hours, minutes, 0, 0)
  if (date.getTime() > now) date.setDate(date.getDate() - 1)
  return date.getTime()
}

function notATime(text: string): PlayheadError {
  const forms =
    "2026-10-01T12:00Z, 01:00 or @1764510212345 (milliseconds since 1970); '2h' is a duration"
  return new PlayheadError('INVALID_ARGUMENT', `${text} is not a time: write ${forms}`)
}

function notADuration(duration: Duration): PlayheadError {
  const message = `${duration} is not a duration: write 500ms, 90s, 15m, 2h, 1d or 1w`
  return new PlayheadError('INVALID_ARGUMENT', message)
}

/** Where a rewind goes to, said once for all partitions. */
export type UniformTarget =
  | Moment
  /** This offset, in each partition. */
  | { readonly offset: number }
  /** So many offsets from where the group is: -100 is a hundred back. */
  | { readonly shift: number }
  | 'earliest'
  | 'latest'

/**
 * A target as it is written on the command line: '2h' (ago), '2026-10-01T12:00Z', '01:00', '@1764510212345',
 * '4711' (an offset), '-100' or '+100' (a shift), 'earliest', 'latest'. Throws INVALID_ARGUMENT.
 */
export function parseTarget(text: string, now: number): UniformTarget {
  if (text === 'earliest' || text === 'latest') return text
  if (/^\d+$/.test(text)) return { offset: safe(text) }
  if (/^[+-]\d+$/.test(text)) return { shift: safe(text) }
  if (/^\d+(?:\.\d+)?[a-z]+$/i.test(text)) {
    parseDuration(text)
    return { ago: text }
  }
  return { time: parseTime(text, now) }
}

function safe(text: string): number {
  const value = Number(text)
  if (Number.isSafeInteger(value)) return value
  throw new PlayheadError(
    'INVALID_ARGUMENT',
    `${text}: offsets go up to ${Number.MAX_SAFE_INTEGER}`
  )
}
