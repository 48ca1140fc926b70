/** Who holds on to the embedded broker without asking it for anything, or from further than this machine. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { VirtualClock } from '../../sim/world/clock.ts'
import { simulatedCpu } from '../../sim/world/cpu.ts'
import { SeededRandom } from '../../sim/world/random.ts'
import type { Env, Log, Socket } from '../../src/base/env.ts'
import { silentLog } from '../../src/base/node/log.ts'
import { type BrokerOptions, startBroker } from '../../src/broker/broker.ts'
import { MemoryNetwork } from '../../src/net/memory.ts'
import { MemoryStore } from '../../src/store/memory.ts'

class Place {
  readonly clock = new VirtualClock()
  readonly warnings: string[] = []
  readonly #random = new SeededRandom(1n)
  readonly #network = new MemoryNetwork({ clock: this.clock, random: this.#random })

  async broker(options: BrokerOptions) {
    const log: Log = { ...silentLog, warn: message => this.warnings.push(message) }
    const env: Env = {
      clock: this.clock,
      random: this.#random,
      net: this.#network.node('broker'),
      cpu: simulatedCpu(this.clock, this.#random),
      log
    }
    return await this.clock.play(startBroker({ env, store: new MemoryStore() }, options))
  }

  /** A connection, and what becomes of it. */
  async dial(from: string): Promise<{ readonly socket: Socket; closed: boolean }> {
    let opened = () => {}
    const over = new Promise<void>(resolve => {
      opened = resolve
    })
    const dialled = {
      closed: false,
      socket: this.#network.node(from).connect(
        { host: 'broker', port: 9092 },
        {
          onOpen: () => opened(),
          onData() {},
          onClose() {
            dialled.closed = true
            opened()
          }
        }
      )
    }
    await this.clock.play(over)
    return dialled
  }
}

const beyond: BrokerOptions = { host: 'broker', port: 9092 }

test('a broker that listens beyond loopback says at its start what that means', async () => {
  const place = new Place()
  const here = await place.broker({ host: '127.0.0.1', port: 9092 })
  assert.deepEqual(place.warnings, [])
  await place.clock.play(here.close())
  const open = await place.broker(beyond)
  assert.match(place.warnings.join('\n'), /whoever reaches it may read, write and rewind/)
  await place.clock.play(open.close())
})

test('an address gets 200 connections and no more, and others are still served', async () => {
  const place = new Place()
  const broker = await place.broker(beyond)
  const crowd = []
  for (let i = 0; i < 200; i++) crowd.push(await place.dial('crowd'))
  const oneMore = await place.dial('crowd')
  await place.clock.advance(100)
  assert.equal(oneMore.closed, true)
  assert.ok(crowd.every(({ closed }) => !closed))
  const other = await place.dial('other')
  await place.clock.advance(100)
  assert.equal(other.closed, false)
  await place.clock.play(broker.close())
})

test('half a frame ends its connection within 40 s, silence within 11 minutes', async () => {
  const place = new Place()
  const broker = await place.broker(beyond)
  const half = await place.dial('half')
  const silent = await place.dial('silent')
  half.socket.write([Buffer.from([0, 0, 0, 100, 0, 18])])
  await place.clock.advance(25_000)
  assert.equal(half.closed, false)
  await place.clock.advance(15_000)
  assert.deepEqual([half.closed, silent.closed], [true, false])
  await place.clock.advance(620_000)
  assert.equal(silent.closed, true)
  await place.clock.play(broker.close())
})

test('what is no Kafka frame ends its connection at once: HTTP, TLS, sizes that cannot be', async () => {
  const place = new Place()
  const broker = await place.broker(beyond)
  for (const bytes of [
    Buffer.from('GET / HTTP/1.1\r\nHost: broker\r\n\r\n'),
    Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01]),
    Buffer.from([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]),
    Buffer.from([0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]),
    Buffer.from([0, 0, 0, 0])
  ]) {
    const dialled = await place.dial('stranger')
    dialled.socket.write([bytes])
    await place.clock.advance(1_000)
    assert.equal(dialled.closed, true, bytes.toString('latin1'))
  }
  await place.clock.play(broker.close())
})
