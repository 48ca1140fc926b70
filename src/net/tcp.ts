/**
 * The Net port on node:net and node:tls.
 *
 * Reading: plain sockets read through `onread` into one buffer that is used again for every chunk and
 * stays in the processor's cache; the owner copies once, into the frame's own memory. All share it,
 * as libuv fills it and calls back in one go, and a call back is never inside another. (With 'data' events each chunk is
 * 64 KiB of new memory, and most of an accepting process's time went into collecting them.) Node offers `onread` only
 * for sockets one dials; how an accepted one gets it, see `adopted`. One over TLS reads by 'data' events.
 * Writing: the first `write` of a turn corks the socket, and what was written in that turn and by its promise
 * jobs leaves in one `writev`.
 */

import type * as Tcp from 'node:net'
import type tls from 'node:tls'
import type {
  Address,
  ListenAddress,
  Listener,
  Log,
  Net,
  Socket,
  SocketHandler
} from '../base/env.ts'
import { connectFailure, connectionLoss, listenFailure } from './failure.ts'
import { acceptQueueLength, highWaterBytes, keepAliveMs, lingerMs } from './limits.ts'
import { Credentials, asksClients, credentialsOf, nodeTls } from './tls.ts'

/**
 * By `import` Node reads every property of a module of its own, and so loads all that the module would load by itself
 * when it is needed (webcrypto, fs.promises, workers, …): with that, ours took 34 ms of processor time and 10 MB, so 16 ms
 * and 4 MB (Node 24). Hence no file that every client loads imports one.
 */
const net = process.getBuiltinModule('node:net')

/**
 * For all plain sockets of a net. 1 MiB frames copied out, CPU ms/GB, medians of five runs on a busy machine (Node 20,
 * bench/net.ts): 64 KiB 320 to 590, 128 KiB 310 to 505, 256 KiB 230 to 460, 'data' events 470 to 600.
 */
const readBufferBytes = 256 * 1024

/** The most that Node decrypts at once. A TLS socket has a buffer of its own. */
const tlsReadBytes = 16 * 1024

/** Per address, when a name has several. Node's default of 250 ms gives up on peers that are merely far. */
const attemptMs = 1_000

/** As for the authentication that follows (security.md S2). */
const handshakeMs = 10_000

export interface TcpOptions {
  readonly log: Log
  /** For measuring. */
  readonly readBufferBytes?: number
}

export function tcpNet(options: TcpOptions): Net {
  const buffer = Buffer.allocUnsafeSlow(options.readBufferBytes ?? readBufferBytes)
  return {
    connect: (to, handler) => connect(to, handler, buffer, options.log),
    listen: (at, accept) => listen(at, accept, buffer, options.log)
  }
}

function connect(to: Address, handler: SocketHandler, shared: Buffer, log: Log): Socket {
  const buffer = to.tls === undefined ? shared : Buffer.allocUnsafeSlow(tlsReadBytes)
  const raw = dial(
    to,
    readingInto(buffer, () => socket),
    log
  )
  const socket: TcpSocket = new TcpSocket(raw, to, to.tls !== undefined)
  socket.attend(handler)
  raw.once(to.tls ? 'secureConnect' : 'connect', () => socket.opened())
  return socket
}

function readingInto(buffer: Buffer, socket: () => TcpSocket): Tcp.OnReadOpts {
  return {
    buffer,
    callback(byteCount, filled) {
      socket().received((filled as Buffer).subarray(0, byteCount))
      return true
    }
  }
}

/** Never throws: a port out of range or an unreadable key is told like every other failure to connect. */
function dial(
  { host, port, tls: tlsOptions }: Address,
  onread: Tcp.OnReadOpts,
  log: Log
): Tcp.Socket {
  const how = {
    host,
    port,
    onread,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: keepAliveMs,
    autoSelectFamilyAttemptTimeout: attemptMs
  }
  try {
    // Node would throw too, but leave a handle behind.
    if (!(port >= 0 && port <= 65_535)) throw new Error('no port is larger than 65535')
    if (tlsOptions === undefined) return net.connect(how)
    const insecure = tlsOptions.insecure === true
    if (insecure)
      log.warn('TLS without verification: anyone may be the peer (insecure)', { host, port })
    const servername = tlsOptions.servername ?? (net.isIP(host) === 0 ? host : undefined)
    return nodeTls().connect({
      ...how,
      secureContext: credentialsOf(tlsOptions, log).context,
      // Said even when true: otherwise NODE_TLS_REJECT_UNAUTHORIZED=0 would switch it off.
      rejectUnauthorized: !insecure,
      ...(servername === undefined ? {} : { servername })
    })
  } catch (error) {
    const failed = new net.Socket()
    failed.destroy(error instanceof Error ? error : new Error(String(error)))
    return failed
  }
}

/**
 * An accepted socket that reads into `buffer`: another one on its handle, which was not read from yet. Undefined where
 * Node's inside is not what it is in versions 20 to 26; then it reads by 'data' events, which is slower.
 */
function adopted(accepted: Tcp.Socket, onread: Tcp.OnReadOpts): Tcp.Socket | undefined {
  const inside = accepted as unknown as { _handle: { useUserBuffer?: unknown } | null }
  const handle = inside._handle
  if (typeof handle?.useUserBuffer !== 'function') return undefined
  inside._handle = null
  return new net.Socket({ handle, onread } as Tcp.SocketConstructorOpts)
}

async function listen(
  at: ListenAddress,
  accept: (socket: Socket) => SocketHandler,
  shared: Buffer,
  log: Log
): Promise<Listener> {
  const accepted = (raw: Tcp.Socket) => {
    const remote = { host: raw.remoteAddress ?? '', port: raw.remotePort ?? 0 }
    const isSecure = at.tls !== undefined
    const own = isSecure
      ? undefined
      : adopted(
          raw,
          readingInto(shared, () => socket)
        )
    const reading = own ?? raw
    const socket: TcpSocket = new TcpSocket(reading, remote, isSecure)
    socket.opened()
    socket.attend(accept(socket))
    if (own === undefined) raw.on('data', chunk => socket.received(chunk))
    if (!isSecure) reading.resume()
  }
  const server = startServer(at, accepted, log)
  await new Promise<void>((resolve, reject) => {
    const failed = (error: Error) => reject(listenFailure(at.host, at.port, error))
    server.once('error', failed)
    try {
      server.listen({ host: at.host, port: at.port, backlog: acceptQueueLength }, () => {
        server.off('error', failed)
        resolve()
      })
    } catch (error) {
      failed(error instanceof Error ? error : new Error(String(error)))
    }
  })
  server.on('error', error => log.error('accepting a connection failed', { error }))
  const { address, port } = server.address() as Tcp.AddressInfo
  return {
    host: address,
    port,
    // Not by server.close's callback: that one waits for the accepted sockets too.
    close: () =>
      new Promise(resolve => {
        server.close()
        setImmediate(resolve)
      })
  }
}

function startServer(at: ListenAddress, accepted: (raw: Tcp.Socket) => void, log: Log): Tcp.Server {
  const how = { noDelay: true, keepAlive: true, keepAliveInitialDelay: keepAliveMs }
  if (at.tls === undefined) return net.createServer({ ...how, pauseOnConnect: true }, accepted)
  const { tls: options } = at
  let server: tls.Server
  try {
    const credentials = new Credentials(options)
    server = nodeTls().createServer({
      ...how,
      ...credentials.pems,
      handshakeTimeout: handshakeMs,
      requestCert: asksClients(options),
      rejectUnauthorized: options.insecure !== true
    })
    // Before the listener by which Node begins the handshake: that one is the first with a new certificate.
    server.prependListener('connection', () => {
      if (credentials.refresh(log)) server.setSecureContext(credentials.pems)
    })
  } catch (error) {
    throw listenFailure(at.host, at.port, error as Error)
  }
  server.on('secureConnection', accepted)
  server.on('tlsClientError', (error, raw) =>
    log.info('TLS handshake of a client failed', { host: raw.remoteAddress, error })
  )
  return server
}

const nothing = new Uint8Array(0)
const nowhere = { host: '', port: 0 } as const

/** Where the socket is: nothing leads back. 'ending' is after either side's end; 'dying' after destroy. */
type Phase = 'connecting' | 'open' | 'ending' | 'dying' | 'closed'

class TcpSocket implements Socket {
  readonly remote: { readonly host: string; readonly port: number }
  readonly #raw: Tcp.Socket
  readonly #secure: boolean
  #local: { readonly host: string; readonly port: number } = nowhere
  #handler: SocketHandler | undefined
  #phase: Phase = 'connecting'
  #wasOpen = false
  #corked = false
  #blocked = false
  #error: Error | undefined

  constructor(raw: Tcp.Socket, remote: { host: string; port: number }, secure: boolean) {
    this.#raw = raw
    this.remote = { host: remote.host, port: remote.port }
    this.#secure = secure
    raw.on('error', error => this.#failed(error))
    raw.on('end', () => this.#ending())
    raw.on('drain', () => this.#drained())
    raw.once('close', () => this.#closed())
    // Until `opened`: nothing leaves before a certificate is judged, whatever Node does with early writes.
    raw.cork()
  }

  attend(handler: SocketHandler): void {
    this.#handler = handler
  }

  opened(): void {
    this.#local = { host: this.#raw.localAddress ?? '', port: this.#raw.localPort ?? 0 }
    this.#wasOpen = true
    this.#raw.uncork()
    if (this.#phase === 'connecting') this.#phase = 'open'
    else if (this.#phase === 'ending') this.#raw.end()
    if (this.#phase !== 'dying') this.#handler?.onOpen?.()
  }

  received(chunk: Buffer): void {
    this.#handler?.onData(chunk)
  }

  get local(): { readonly host: string; readonly port: number } {
    return this.#local
  }

  get queuedBytes(): number {
    return this.#phase === 'dying' || this.#phase === 'closed' ? 0 : this.#raw.writableLength
  }

  write(buffers: readonly Uint8Array[], written?: () => void): boolean {
    if (this.#phase !== 'open' && this.#phase !== 'connecting') return true
    const raw = this.#raw
    if (!this.#corked) {
      this.#corked = true
      raw.cork()
      process.nextTick(uncork, this)
    }
    for (const buffer of buffers) if (buffer.length > 0) raw.write(buffer)
    if (written !== undefined) raw.write(nothing, error => error ?? written())
    if (raw.writableLength <= highWaterBytes) return true
    this.#blocked = true
    return false
  }

  uncork(): void {
    this.#corked = false
    this.#raw.uncork()
  }

  pause(): void {
    this.#raw.pause()
  }

  resume(): void {
    this.#raw.resume()
  }

  end(): void {
    if (this.#phase !== 'open' && this.#phase !== 'connecting') return
    // Ending a corked socket would send at once, and so before the handshake: see the constructor.
    if (this.#phase === 'open') this.#raw.end()
    this.#ending()
  }

  destroy(error?: Error): void {
    if (this.#phase === 'dying' || this.#phase === 'closed') return
    const reset = this.#wasOpen && !this.#secure
    this.#phase = 'dying'
    this.#error = error
    // A reset, so that the peer does not take this for an orderly end. Node has none for TLS.
    if (reset) this.#raw.resetAndDestroy()
    else this.#raw.destroy()
  }

  #ending(): void {
    if (this.#phase === 'dying' || this.#phase === 'closed') return
    this.#phase = 'ending'
    this.#raw.setTimeout(lingerMs, () =>
      this.destroy(
        connectionLoss(
          this.remote.host,
          this.remote.port,
          new Error('it was ended, and the peer is silent')
        )
      )
    )
  }

  #failed(error: Error): void {
    if (this.#phase === 'dying' || this.#phase === 'closed') return
    const { host, port } = this.remote
    this.#error = this.#wasOpen
      ? connectionLoss(host, port, error)
      : connectFailure(host, port, error, this.#secure)
  }

  #drained(): void {
    if (!this.#blocked) return
    this.#blocked = false
    if (this.#phase === 'open') this.#handler?.onDrain?.()
  }

  #closed(): void {
    this.#phase = 'closed'
    const handler = this.#handler
    this.#handler = undefined
    handler?.onClose(this.#error)
  }
}

function uncork(socket: TcpSocket): void {
  socket.uncork()
}
