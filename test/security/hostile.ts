/** A broker on a real socket that a test lets say any bytes: it opens connections as Kafka does, and then is not one. */
import net from 'node:net'
import tls from 'node:tls'
import { ApiVersions } from '../../src/protocol/api/api-versions.ts'
import { apiByKey, apis } from '../../src/protocol/apis.ts'
import {
  FrameSplitter,
  type RequestStart,
  encodeResponse,
  readRequestStart
} from '../../src/protocol/frame.ts'
import type { Api, ResponseWritten } from '../../src/protocol/schema.ts'

/** A request, and how to answer it, rightly or not. */
export interface HostileRequest {
  readonly start: RequestStart
  readonly api: string
  readonly frame: Buffer
  readonly socket: net.Socket
  /** As a broker would; `correlationId` as the client's unless it is given. */
  answer<A extends Api>(api: A, body: ResponseWritten<A>, correlationId?: number): void
}

export interface HostileOptions {
  /** Says something as soon as somebody has connected. */
  readonly onConnect?: (socket: net.Socket) => void
  /** Answers a request; true: it did, and the usual answer to ApiVersions is not given. */
  readonly onRequest?: (request: HostileRequest) => boolean | void
  readonly tls?: tls.TlsOptions
}

export class HostileBroker {
  readonly address: string
  /** Everything that anybody ever said to it. */
  readonly heard: Buffer[] = []
  connections = 0
  readonly #server: net.Server
  readonly #sockets = new Set<net.Socket>()

  private constructor(server: net.Server) {
    this.#server = server
    this.address = `127.0.0.1:${(server.address() as net.AddressInfo).port}`
  }

  get port(): number {
    return Number(this.address.split(':')[1])
  }

  static async start(options: HostileOptions): Promise<HostileBroker> {
    const secure = options.tls !== undefined
    const server = secure ? tls.createServer(options.tls ?? {}) : net.createServer()
    server.on('tlsClientError', () => {})
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    const broker = new HostileBroker(server)
    server.on(secure ? 'secureConnection' : 'connection', (socket: net.Socket) => {
      broker.accept(socket, options)
    })
    return broker
  }

  private accept(socket: net.Socket, { onConnect, onRequest }: HostileOptions): void {
    this.connections++
    this.#sockets.add(socket)
    const splitter = new FrameSplitter(
      frame => this.request(frame, socket, onRequest),
      2 ** 30,
      65_536
    )
    socket.on('data', (chunk: Buffer) => {
      this.heard.push(Buffer.from(chunk))
      try {
        splitter.push(chunk)
      } catch {
        // What it is told may be no Kafka frame, as TLS where it speaks plain text.
        socket.destroy()
      }
    })
    socket.on('error', () => {})
    socket.on('close', () => this.#sockets.delete(socket))
    onConnect?.(socket)
  }

  private request(frame: Buffer, socket: net.Socket, onRequest: HostileOptions['onRequest']): void {
    const start = readRequestStart(frame)
    const { apiKey, apiVersion } = start
    const answer = <A extends Api>(
      api: A,
      body: ResponseWritten<A>,
      correlationId = start.correlationId
    ) => {
      // The answer to another question has a version of its own.
      const version = Math.min(apiVersion, api.versions[1])
      socket.write(Buffer.concat(encodeResponse(api, version, correlationId, body)))
    }
    const api = apiByKey.get(apiKey)?.name ?? String(apiKey)
    if (onRequest?.({ start, api, frame, socket, answer })) return
    if (apiKey === ApiVersions.key) answer(ApiVersions, everything)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise(resolve => this.#server.close(resolve))
  }
}

/** It speaks all there is. */
export const everything: ResponseWritten<typeof ApiVersions> = {
  errorCode: 0,
  apiKeys: apis.map(({ key, versions }) => ({
    apiKey: key,
    minVersion: versions[0],
    maxVersion: versions[1]
  })),
  throttleTimeMs: 0
}
