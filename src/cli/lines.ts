/** Cuts a byte stream into lines, without a copy where a line lies in one chunk. */

const NEWLINE = 0x0a
const CARRIAGE_RETURN = 0x0d

export class Lines {
  private rest: Buffer | null = null

  /** The lines that this chunk completes. */
  push(chunk: Buffer): Uint8Array[] {
    const bytes = this.rest ? Buffer.concat([this.rest, chunk]) : chunk
    const lines: Uint8Array[] = []
    let from = 0
    for (let to = bytes.indexOf(NEWLINE); to >= 0; to = bytes.indexOf(NEWLINE, from)) {
      lines.push(withoutReturn(bytes.subarray(from, to)))
      from = to + 1
    }
    this.rest = from < bytes.length ? bytes.subarray(from) : null
    return lines
  }

  /** The last line, when no newline ended it. */
  end(): Uint8Array[] {
    const last = this.rest
    this.rest = null
    return last ? [withoutReturn(last)] : []
  }
}

function withoutReturn(line: Buffer): Buffer {
  return line.at(-1) === CARRIAGE_RETURN ? line.subarray(0, -1) : line
}
