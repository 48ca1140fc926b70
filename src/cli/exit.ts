/** What the shell is told: one exit code for each kind of end, and one line that says what and what to do. */
import { type ErrorCode, PlayheadError } from '../base/error.ts'

export const exitCodes = {
  done: 0,
  failed: 1,
  /** The command line was wrong: nothing was asked of any broker. */
  usage: 2,
  /** Some partitions were done, some not; the list was printed. */
  partlyApplied: 3,
  /** Nothing was changed, for a reason that the message gives. */
  refused: 4,
  /** The deadline passed; what was asked may still take effect. */
  deadline: 5
} as const

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

const byError: Partial<Record<ErrorCode, ExitCode>> = {
  INVALID_ARGUMENT: exitCodes.usage,
  PARTIALLY_APPLIED: exitCodes.partlyApplied,
  REWIND_REFUSED: exitCodes.refused,
  REWIND_SUPERSEDED: exitCodes.partlyApplied,
  REWIND_PENDING: exitCodes.deadline,
  TIMED_OUT: exitCodes.deadline
}

export function exitCodeOf(error: unknown): ExitCode {
  return (error instanceof PlayheadError ? byError[error.code] : undefined) ?? exitCodes.failed
}

/** A caller's or cluster's error is one line; a bug of ours brings its stack. */
export function errorText(error: unknown): string {
  if (error instanceof PlayheadError) return error.message
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
