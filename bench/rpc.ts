/**
 * What the RPC layer costs. The codec: a Fetch answer with 200 partitions, written and read (records are a slice,
 * so their size hardly counts). The path of a call: round trips with a process that answers at once over loopback,
 * one after the other (latency) and 64 at a time (throughput), beside the same frames over a bare socket.
 *
 *   node build/bench/rpc.js [seconds per case = 1] [rounds = 3]
 */

import { fork } from 'node:child_process'
import net from 'node:net'
import { nodeEnv } from '../src/base/node/env.ts'
import { ApiVersions } from '../src/protocol/api/api-versions.ts'
import { Fetch } from '../src/protocol/api/fetch.ts'
import { Heartbeat } from '../src/protocol/api/heartbeat.ts'
import { apiByKey, apis } from '../src/protocol/apis.ts'
import {
  FrameSplitter,
  decodeResponse,
  encodeRequest,
  encodeResponse,
  readRequestStart
} from '../src/protocol/frame.ts'
import type { ResponseWritten } from '../src/protocol/schema.ts'
import { Cluster } from '../src/rpc/cluster.ts'

const fetchVersion = 17
const beat = { groupId: 'billing', generationId: 1, memberId: 'member-1' }

/** Resolves to operations a second. */
type Case = (seconds: number, port: number) => Promise<number>

const cases: readonly (readonly [name: string, run: Case])[] = [
  ['write a Fetch answer of 200 partitions', seconds => repeat(seconds, writeFetch())],
  ['read a Fetch answer of 200 partitions', seconds => repeat(seconds, readFetch())],
  ['round trips, bare socket, 1 at a time', (seconds, port) => bare(seconds, port, 1)],
  ['round trips, cluster, 1 at a time', (seconds, port) => calls(seconds, port, 1)],
  ['round trips, bare socket, 64 at a time', (seconds, port) => bare(seconds, port, 64)],
  ['round trips, cluster, 64 at a time', (seconds, port) => calls(seconds, port, 64)]
]

function fetchAnswer(): ResponseWritten<typeof Fetch> {
  const records = Buffer.alloc(1_000)
  const partitions = Array.from({ length: 20 }, (_, partitionIndex) => ({
    partitionIndex,
    errorCode: 0,
    highWatermark: 1_000_000,
    lastStableOffset: 1_000_000,
    logStartOffset: 0,
    abortedTransactions: null,
    records
  }))
  const responses = Array.from({ length: 10 }, (_, i) => ({
    topicId: `${'a'.repeat(20)}${i}A`,
    partitions
  }))
  return { throttleTimeMs: 0, errorCode: 0, sessionId: 1, responses }
}

function writeFetch(): () => void {
  const body = fetchAnswer()
  return () => void encodeResponse(Fetch, fetchVersion, 1, body)
}

function readFetch(): () => void {
  const bytes = Buffer.concat(encodeResponse(Fetch, fetchVersion, 1, fetchAnswer()))
  const frame = bytes.subarray(4)
  return () => void decodeResponse(Fetch, fetchVersion, frame)
}

async function repeat(seconds: number, once: () => void): Promise<number> {
  for (let i = 0; i < 500; i++) once()
  const start = performance.now()
  let count = 0
  while (performance.now() - start < seconds * 1000) {
    for (let i = 0; i < 50; i++) once()
    count += 50
  }
  return count / ((performance.now() - start) / 1000)
}

async function calls(seconds: number, port: number, atOnce: number): Promise<number> {
  await using cluster = new Cluster(nodeEnv(), { bootstrap: [`127.0.0.1:${port}`] })
  await cluster.request(Heartbeat, beat, { to: 'any' })
  const start = performance.now()
  let count = 0
  const one = async () => {
    while (performance.now() - start < seconds * 1000) {
      await cluster.request(Heartbeat, beat, { to: 'any' })
      count++
    }
  }
  await Promise.all(Array.from({ length: atOnce }, one))
  return count / ((performance.now() - start) / 1000)
}

/** As little as can be done: the same frame again and again, answers counted by their size. */
async function bare(seconds: number, port: number, atOnce: number): Promise<number> {
  const request = Buffer.concat(
    encodeRequest(Heartbeat, 4, { correlationId: 1, clientId: 'playhead' }, beat)
  )
  const answerBytes = Buffer.concat(encodeResponse(Heartbeat, 4, 1, { errorCode: 0 })).length
  const socket = net.connect({ port, host: '127.0.0.1', noDelay: true })
  let bytes = 0
  let written = 0
  const start = performance.now()
  return await new Promise(resolve => {
    const refill = () => {
      socket.cork()
      while (written - bytes / answerBytes < atOnce) {
        socket.write(request)
        written++
      }
      socket.uncork()
    }
    socket.on('connect', refill)
    socket.on('data', chunk => {
      bytes += chunk.length
      const elapsedMs = performance.now() - start
      if (elapsedMs < seconds * 1000) return refill()
      socket.destroy()
      resolve(bytes / answerBytes / (elapsedMs / 1000))
    })
  })
}

/** Answers ApiVersions truly, and all else with the error code 0. */
function serve(): void {
  const apiKeys = apis.map(({ key, versions: [minVersion, maxVersion] }) => {
    return { apiKey: key, minVersion, maxVersion }
  })
  const server = net.createServer({ noDelay: true }, socket => {
    const splitter = new FrameSplitter(
      frame => {
        const { apiKey, apiVersion, correlationId } = readRequestStart(frame)
        const api = apiByKey.get(apiKey) ?? Heartbeat
        const body = api === ApiVersions ? { errorCode: 0, apiKeys } : { errorCode: 0 }
        for (const bytes of encodeResponse(api, apiVersion, correlationId, body as never)) {
          socket.write(bytes)
        }
      },
      1_000_000,
      1_000
    )
    socket.on('data', chunk => {
      socket.cork()
      splitter.push(chunk)
      socket.uncork()
    })
    socket.on('error', () => {})
  })
  server.listen(0, '127.0.0.1', () => {
    process.send?.((server.address() as net.AddressInfo).port)
  })
  process.on('disconnect', () => process.exit())
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN
}

async function main(seconds: number, rounds: number): Promise<void> {
  const server = fork(new URL(import.meta.url), ['serve'])
  const port = await new Promise<number>(resolve => {
    server.once('message', message => resolve(Number(message)))
  })
  const rates = new Map(cases.map(([name]) => [name, [] as number[]]))
  for (let round = 0; round < rounds; round++) {
    for (const [name, run] of cases) rates.get(name)?.push(await run(seconds, port))
  }
  for (const [name, list] of rates) {
    const [low, high] = [Math.min(...list), Math.max(...list)].map(Math.round)
    console.log(`${name.padEnd(42)} ${Math.round(median(list))} /s  (${low} to ${high})`)
  }
  server.disconnect()
}

if (process.argv[2] === 'serve') serve()
else await main(Number(process.argv[2] ?? 1), Number(process.argv[3] ?? 3))
