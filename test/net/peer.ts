/** The owner of a socket in tests: keeps what it was told, and checks the order in which it was. */

import assert from 'node:assert/strict'
import type { Socket, SocketHandler } from '../../src/base/env.ts'

export class Peer implements SocketHandler {
  /** Its process is dead: it must not be told anything. */
  dead = false
  opens = 0
  drains = 0
  closes = 0
  error: Error | undefined
  /** Everything received, copied. */
  readonly chunks: Buffer[] = []
  byteCount = 0
  socket: Socket | undefined
  whenData: (chunk: Buffer) => void = () => {}
  whenDrained: () => void = () => {}

  get closed(): boolean {
    return this.closes > 0
  }

  get bytes(): Buffer {
    return Buffer.concat(this.chunks)
  }

  /** The socket, once there is one. */
  get its(): Socket {
    assert(this.socket, 'the peer has a socket')
    return this.socket
  }

  onOpen(): void {
    assert(!this.dead, 'the dead hear nothing')
    assert.equal(this.byteCount, 0, 'open comes before bytes')
    assert.equal(this.closes, 0, 'open comes before the close')
    this.opens++
  }

  onData(chunk: Buffer): void {
    assert(!this.dead, 'the dead hear nothing')
    assert.equal(this.closes, 0, 'no bytes come after the close')
    assert(chunk.length > 0, 'a chunk has bytes')
    this.chunks.push(Buffer.from(chunk))
    this.byteCount += chunk.length
    this.whenData(chunk)
  }

  onDrain(): void {
    assert(!this.dead, 'the dead hear nothing')
    assert.equal(this.closes, 0, 'no drain comes after the close')
    this.drains++
    this.whenDrained()
  }

  onClose(error?: Error): void {
    assert(!this.dead, 'the dead hear nothing')
    this.closes++
    assert.equal(this.closes, 1, 'the close comes once')
    this.error = error
  }
}
