/**
 * The real network, whose connections can be severed on this side only: the client is told that they broke, while what
 * it sent stays on its way to the broker, for as long as the test likes. So a commit arrives after it was given up.
 */
import type { Address, Net, Socket, SocketHandler } from '../../../src/base/env.ts'
import { assert } from '../../../src/base/assert.ts'

interface Line {
  readonly port: number
  readonly socket: Socket
  readonly handler: SocketHandler
  severed: boolean
  /** What was written since it is held: it is still on its way. */
  held: (readonly Uint8Array[])[] | null
}

export class SeverableNet implements Net {
  readonly #net: Net
  readonly #lines = new Set<Line>()

  constructor(net: Net) {
    this.#net = net
  }

  connect(to: Address, handler: SocketHandler): Socket {
    let line: Line | null = null
    const alive = () => line !== null && !line.severed
    const socket = this.#net.connect(to, {
      onOpen: () => handler.onOpen?.(),
      onData: chunk => {
        if (alive()) handler.onData(chunk)
      },
      onDrain: () => {
        if (alive()) handler.onDrain?.()
      },
      onClose: error => {
        const told = !alive()
        if (line) this.#lines.delete(line)
        if (!told) handler.onClose(error)
      }
    })
    line = { port: to.port, socket, handler, severed: false, held: null }
    this.#lines.add(line)
    return view(line)
  }

  listen(...args: Parameters<Net['listen']>): ReturnType<Net['listen']> {
    return this.#net.listen(...args)
  }

  /** From now on, what is written to connections of a port stays on its way. */
  hold(port: number): void {
    for (const line of this.#to(port)) line.held ??= []
  }

  /** Whether a request to this API is among what is held. */
  holds(port: number, apiKey: number): boolean {
    return this.#to(port).some(({ held }) =>
      held?.some(buffers => Buffer.concat(buffers).readInt16BE(4) === apiKey)
    )
  }

  /** Severs all connections to a port. What was held arrives when what this returns is called. */
  sever(port: number): () => void {
    const lines = this.#to(port)
    assert(lines.length > 0, 'there is a connection to sever')
    for (const line of lines) {
      line.severed = true
      line.handler.onClose(new Error('severed by the test'))
    }
    return () => {
      for (const { socket, held } of lines) {
        for (const buffers of held ?? []) socket.write(buffers)
        socket.end()
      }
    }
  }

  #to(port: number): Line[] {
    return [...this.#lines].filter(line => line.port === port && !line.severed)
  }
}

/** What the client holds: once severed, it does nothing any more. */
function view(line: Line): Socket {
  const { socket } = line
  return {
    get remote() {
      return socket.remote
    },
    get local() {
      return socket.local
    },
    get queuedBytes() {
      return socket.queuedBytes
    },
    write: buffers => {
      if (line.severed) return true
      if (!line.held) return socket.write(buffers)
      line.held.push(buffers)
      return true
    },
    pause: () => {
      if (!line.severed) socket.pause()
    },
    resume: () => {
      if (!line.severed) socket.resume()
    },
    end: () => {
      if (!line.severed) socket.end()
    },
    destroy: error => {
      if (!line.severed) socket.destroy(error)
    }
  }
}
