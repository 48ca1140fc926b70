/**
 * Messages for a person, on standard error, one line each: time, level, message, then the fields as
 * key=value. Control characters are escaped (security.md S14) and a `Secret` prints as `***` (S15).
 */

import type { Clock, Log, LogFields } from '../env.ts'
import { printable } from '../printable.ts'
import { nodeClock } from './clock.ts'

const levels = { debug: 0, info: 1, warn: 2, error: 3, silent: 4 } as const

/** The least level that is written; 'silent': nothing is. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'

/** Longest value of one field, in characters; the rest is cut off. */
const longestValue = 1_000

export interface LineLogOptions {
  /** The least level that is written. Default 'info'. */
  readonly level?: LogLevel
  readonly clock?: Clock
  /** Takes one line, with its line end. Default: standard error. */
  readonly write?: (line: string) => void
}

export function lineLog(options: LineLogOptions = {}): Log {
  const least = levels[options.level ?? 'info']
  const clock = options.clock ?? nodeClock
  const write = options.write ?? (line => process.stderr.write(line))
  const at = (level: Exclude<LogLevel, 'silent'>) => {
    if (levels[level] < least) return () => {}
    const label = level.toUpperCase().padEnd(5)
    return (message: string, fields?: LogFields) => {
      const time = new Date(clock.now()).toISOString()
      write(`${time} ${label} ${printable(message)}${fields ? formatFields(fields) : ''}\n`)
    }
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

/** Says nothing. */
export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} }

function formatFields(fields: LogFields): string {
  let text = ''
  for (const [key, value] of Object.entries(fields)) {
    if (value !== undefined) text += ` ${printable(key)}=${formatValue(value)}`
  }
  return text
}

function formatValue(value: unknown): string {
  const full = typeof value === 'string' ? quoteIfNeeded(value) : printable(describe(value))
  return full.length > longestValue ? `${full.slice(0, longestValue)}…` : full
}

/** A string is quoted when without it one could not tell where it ends. */
function quoteIfNeeded(text: string): string {
  return /^[^\s"'=\\]+$/.test(text) ? printable(text) : printable(JSON.stringify(text))
}

function describe(value: unknown): string {
  // An error's stack is for a debugger; its message, and those of its causes, are for a person.
  if (value instanceof Error) return JSON.stringify(messages(value))
  const { inspect } = process.getBuiltinModule('node:util')
  return inspect(value, { depth: 3, breakLength: Infinity, compact: true, maxArrayLength: 20 })
}

function messages(error: Error, depth = 0): string {
  const { cause } = error
  return cause instanceof Error && depth < 4
    ? `${error.message}: ${messages(cause, depth + 1)}`
    : error.message
}
