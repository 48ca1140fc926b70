/**
 * What the commands print by. Results go to stdout and nothing else does, so that they can be piped; notes,
 * progress and errors go to stderr. Whatever comes from a cluster is escaped before a terminal sees it.
 */

import { printable } from '../base/printable.ts'

export interface Column<Row> {
  readonly title: string
  readonly value: (row: Row) => string | number | null | undefined
  readonly align?: 'left' | 'right'
}

/** A local time with its zone, so that no reader has to guess: 2026-10-01T14:00:00.000+02:00. */
export function localTime(timestampMs: number): string {
  if (!Number.isFinite(timestampMs) || Math.abs(timestampMs) > 8.64e15) return `${timestampMs} ms`
  const at = new Date(timestampMs)
  const offsetMinutes = -at.getTimezoneOffset()
  const shifted = new Date(timestampMs + offsetMinutes * 60_000).toISOString().slice(0, -1)
  if (offsetMinutes === 0) return `${shifted}Z`
  const part = (n: number): string => String(Math.floor(Math.abs(n))).padStart(2, '0')
  return `${shifted}${offsetMinutes < 0 ? '-' : '+'}${part(offsetMinutes / 60)}:${part(offsetMinutes % 60)}`
}

/** 1234567 as 1,234,567, the same in every locale. */
export function count(n: number): string {
  return n.toLocaleString('en-US')
}

export class Terminal {
  private readonly out: NodeJS.WriteStream
  private readonly err: NodeJS.WriteStream
  private progressShown = false

  constructor(out: NodeJS.WriteStream, err: NodeJS.WriteStream) {
    this.out = out
    this.err = err
    // `playhead consume … | head`: the reader went away, and that is all.
    out.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') this.closed = true
      else throw error
    })
  }

  /** Whether a person reads stdout: what comes from elsewhere must be escaped then. */
  get isInteractive(): boolean {
    return this.out.isTTY === true
  }

  /** Whether nobody reads stdout any more. */
  closed = false

  /** A line of the result. */
  print(line: string): void {
    this.out.write(`${line}\n`)
  }

  /** Bytes of the result as they are. Resolves when there is room for more. */
  async write(bytes: Uint8Array): Promise<void> {
    if (this.closed || this.out.write(bytes)) return
    await new Promise<void>(resolve => {
      const done = (): void => {
        this.out.off('drain', done)
        this.out.off('close', done)
        this.out.off('error', done)
        resolve()
      }
      this.out.on('drain', done)
      this.out.on('close', done)
      this.out.on('error', done)
    })
  }

  /** A line for the person beside the result. */
  note(line: string): void {
    this.clearProgress()
    this.err.write(`${printable(line)}\n`)
  }

  /** The state of long work, on one line that is written over. Nothing where stderr is no terminal. */
  progress(line: string): void {
    if (!this.err.isTTY) return
    this.err.write(`\r\x1b[2K${printable(line).slice(0, (this.err.columns ?? 80) - 1)}`)
    this.progressShown = true
  }

  private clearProgress(): void {
    if (this.progressShown) this.err.write('\r\x1b[2K')
    this.progressShown = false
  }

  json(value: unknown): void {
    this.print(JSON.stringify(value, jsonValue))
  }

  table<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): void {
    for (const line of tableLines(rows, columns)) this.print(line)
  }
}

/** JSON has no Map, Set or bigint. */
function jsonValue(_name: string, value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString()
  if (value instanceof Map) return Object.fromEntries(value)
  if (value instanceof Set) return [...value]
  return value
}

export function tableLines<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): string[] {
  const cells = rows.map(row =>
    columns.map(column => {
      const value = column.value(row)
      return typeof value === 'number' ? count(value) : printable(value ?? '-')
    })
  )
  const titles = columns.map(column => column.title)
  const widths = columns.map((_, i) =>
    Math.max(...[titles, ...cells].map(line => line[i]?.length ?? 0))
  )
  return [titles, ...cells].map(line =>
    line
      .map((cell, i) => {
        const width = widths[i] ?? 0
        return columns[i]?.align === 'right' ? cell.padStart(width) : cell.padEnd(width)
      })
      .join('  ')
      .trimEnd()
  )
}
