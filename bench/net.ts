/**
 * Reading Fetch-sized frames from a loopback socket that another process fills: the Net port against node's own
 * 'data' loop, with read buffers of several sizes. Rounds take turns, medians are printed: GB/s, and the reading
 * process's CPU time per GB, which a busy machine changes less.
 *
 *   node build/bench/net.js [seconds per case = 0.4] [rounds = 3]
 */

import { fork } from 'node:child_process'
import net from 'node:net'
import { silentLog } from '../src/base/node/log.ts'
import { tcpNet } from '../src/net/tcp.ts'

const frameBytes = 1024 * 1024

/** The bytes seen so far; then how to stop. */
type Reader = (port: number) => { readonly bytes: () => number; readonly stop: () => void }

/** As a connection of rpc reads: the frame's length first, then one copy into the frame's own memory. */
class Frames {
  bytes = 0
  frames = 0
  #frame: Buffer | undefined
  #filled = 0
  #prefix = Buffer.alloc(4)
  #prefixFilled = 0

  take(chunk: Buffer): void {
    this.bytes += chunk.length
    let at = 0
    while (at < chunk.length) {
      if (this.#frame === undefined) {
        const count = Math.min(4 - this.#prefixFilled, chunk.length - at)
        chunk.copy(this.#prefix, this.#prefixFilled, at, at + count)
        this.#prefixFilled += count
        at += count
        if (this.#prefixFilled < 4) return
        this.#frame = Buffer.allocUnsafeSlow(this.#prefix.readInt32BE(0))
        this.#filled = 0
        this.#prefixFilled = 0
      }
      const count = Math.min(this.#frame.length - this.#filled, chunk.length - at)
      chunk.copy(this.#frame, this.#filled, at, at + count)
      this.#filled += count
      at += count
      if (this.#filled === this.#frame.length) {
        this.frames++
        this.#frame = undefined
      }
    }
  }
}

function port(readBufferBytes: number, frames: boolean): Reader {
  return number => {
    const reader = new Frames()
    const onData = frames
      ? (chunk: Buffer) => reader.take(chunk)
      : (chunk: Buffer) => {
          reader.bytes += chunk.length
        }
    const socket = tcpNet({ log: silentLog, readBufferBytes }).connect(
      { host: '127.0.0.1', port: number },
      { onData, onClose() {} }
    )
    return { bytes: () => reader.bytes, stop: () => socket.destroy() }
  }
}

function bare(kind: 'drop' | 'copy' | 'concat'): Reader {
  return number => {
    const reader = new Frames()
    let rest = Buffer.alloc(0)
    const socket = net.connect({ host: '127.0.0.1', port: number })
    socket.on('error', () => {})
    socket.on('data', chunk => {
      if (kind === 'copy') return reader.take(chunk)
      reader.bytes += chunk.length
      if (kind === 'drop') return
      rest = Buffer.concat([rest, chunk])
      while (rest.length >= 4 && rest.length >= 4 + rest.readInt32BE(0)) {
        rest = rest.subarray(4 + rest.readInt32BE(0))
      }
    })
    return { bytes: () => reader.bytes, stop: () => socket.destroy() }
  }
}

const cases: readonly (readonly [string, Reader])[] = [
  ["bare 'data', dropped", bare('drop')],
  ["bare 'data', copied into frames", bare('copy')],
  ["bare 'data', concat of each chunk", bare('concat')],
  ['port  16 KiB, dropped', port(16 * 1024, false)],
  ['port  64 KiB, dropped', port(64 * 1024, false)],
  ['port 128 KiB, dropped', port(128 * 1024, false)],
  ['port  16 KiB, copied into frames', port(16 * 1024, true)],
  ['port  32 KiB, copied into frames', port(32 * 1024, true)],
  ['port  64 KiB, copied into frames', port(64 * 1024, true)],
  ['port 128 KiB, copied into frames', port(128 * 1024, true)],
  ['port 256 KiB, copied into frames', port(256 * 1024, true)]
]

interface Sample {
  /** GB/s. */
  readonly rate: number
  /** CPU ms per GB. */
  readonly cpu: number
}

function median(list: readonly number[]): number {
  return list.toSorted((a, b) => a - b)[list.length >> 1] ?? 0
}

async function measure(reader: Reader, number: number, seconds: number): Promise<Sample> {
  const { bytes, stop } = reader(number)
  const wait = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))
  await wait(50)
  const before = bytes()
  const start = performance.now()
  const cpu = process.cpuUsage()
  await wait(seconds * 1000)
  const { user, system } = process.cpuUsage(cpu)
  const gigabytes = (bytes() - before) / 1e9
  const sample = {
    rate: (gigabytes * 1000) / (performance.now() - start),
    cpu: (user + system) / 1000 / gigabytes
  }
  stop()
  await wait(20)
  return sample
}

function serve(): void {
  const frame = Buffer.alloc(4 + frameBytes, 1)
  frame.writeInt32BE(frameBytes, 0)
  const server = net.createServer(socket => {
    const pump = () => {
      let room = true
      while (room) room = socket.write(frame)
    }
    socket.on('drain', pump)
    socket.on('error', () => {})
    pump()
  })
  server.listen(0, '127.0.0.1', () => {
    process.send?.((server.address() as net.AddressInfo).port)
  })
  process.on('disconnect', () => process.exit())
}

async function main(seconds: number, rounds: number): Promise<void> {
  const server = fork(new URL(import.meta.url), ['serve'])
  const number = await new Promise<number>(resolve => {
    server.once('message', message => resolve(Number(message)))
  })
  const samples = new Map(cases.map(([name]) => [name, [] as Sample[]]))
  for (let round = 0; round < rounds; round++) {
    for (const [name, reader] of cases) {
      samples.get(name)?.push(await measure(reader, number, seconds))
    }
  }
  for (const [name, list] of samples) {
    const rate = median(list.map(sample => sample.rate)).toFixed(2)
    const cpu = median(list.map(sample => sample.cpu)).toFixed(0)
    console.log(`${name.padEnd(36)} ${rate} GB/s  ${cpu.padStart(4)} CPU ms/GB`)
  }
  server.disconnect()
}

if (process.argv[2] === 'serve') serve()
else await main(Number(process.argv[2] ?? 0.4), Number(process.argv[3] ?? 3))
