import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { PlayheadError } from '../../src/base/error.ts'
import { Producer } from '../../src/client/producer/producer.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import { type Fault, World } from './brokers.ts'

const codes = [
  { code: KafkaError.NOT_LEADER_OR_FOLLOWER },
  { code: KafkaError.NOT_LEADER_OR_FOLLOWER, append: true },
  { code: KafkaError.NOT_ENOUGH_REPLICAS },
  { code: KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, append: true },
  { code: KafkaError.REQUEST_TIMED_OUT, append: true },
  { code: KafkaError.CORRUPT_MESSAGE },
  { code: KafkaError.KAFKA_STORAGE_ERROR, append: true }
] as const

/** One thing that goes wrong in so many. */
function somethingWrong(world: World, oneIn: number, refuse: boolean): Fault {
  const { random } = world
  if (!random.chance(1 / oneIn))
    return random.chance(0.3) ? { delayMs: random.next() * 50 } : 'none'
  const kind = random.between(0, refuse ? 6 : 4)
  if (kind === 0) return { cut: true, append: true }
  if (kind === 1) return { cut: true, append: false }
  if (kind === 2) return 'silence'
  if (kind === 3) {
    for (const logs of world.logs.values()) {
      for (const log of logs.values()) if (random.chance(0.3)) log.leader = random.between(0, 1)
    }
    return 'none'
  }
  if (kind === 4) return random.pick(codes)
  return { code: random.pick([KafkaError.INVALID_RECORD, KafkaError.MESSAGE_TOO_LARGE]) }
}

const often = fc.integer({ min: 2, max: 20 })
const batches = fc.record({
  large: fc.boolean(),
  compression: fc.constantFrom('none' as const, 'gzip' as const)
})

interface Outcome {
  readonly value: string
  readonly partition: number
  readonly result: { readonly offset: number } | PlayheadError
}

/** Sends values with faults all the time, and collects what came of each. */
async function run(
  world: World,
  producer: Producer,
  values: number,
  valueBytes: number
): Promise<Outcome[]> {
  const outcomes: Promise<Outcome>[] = []
  for (let i = 0; i < values; i++) {
    const value = `${i}`.padStart(valueBytes, '0')
    const partition = world.random.between(0, 2)
    const collect = (result: Outcome['result']) => ({ value, partition, result })
    outcomes.push(
      producer.send('t', { value, partition }).then(collect, (error: unknown) => {
        assert.ok(error instanceof PlayheadError)
        return collect(error)
      })
    )
    if (world.random.chance(0.05)) {
      await new Promise<void>(resolve => world.clock.after(world.random.between(1, 100), resolve))
    }
  }
  return await Promise.all(outcomes)
}

function check(world: World, outcomes: readonly Outcome[]): void {
  for (let partition = 0; partition < 3; partition++) {
    const log = world.log('t', partition).values
    assert.equal(new Set(log).size, log.length, 'each value is at one offset')
    assert.deepEqual(
      log,
      [...log].sort((a, b) => Number(a) - Number(b)),
      'in the order of the sends'
    )
    const written = new Set(log)
    for (const { value, result } of outcomes.filter(outcome => outcome.partition === partition)) {
      if (!(result instanceof PlayheadError)) {
        assert.equal(log[result.offset], value, 'an acknowledged value is where it is said to be')
      } else if (result.retriable || !['TIMED_OUT', 'CONNECTION_LOST'].includes(result.code)) {
        assert.ok(
          !written.has(value),
          `${value} is not there: ${result.code} is a definite failure`
        )
      }
    }
  }
}

// The large batches are sent by reference, from buffers that are used again: the brokers check each one's
// checksum, so that bytes written over while the network still had them would be seen (P8).
test('whatever goes wrong in passing: each value once, in order, and none is lost', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer(), often, batches, async (seed, oneIn, { large, compression }) => {
      const world = new World({ seed })
      world.onProduce = () => somethingWrong(world, oneIn, false)
      const producer = new Producer(world.cluster, {
        compression,
        batchBytes: large ? 9000 : 150,
        requestTimeoutMs: 300,
        maxBufferedBytes: large ? 60_000 : 5000
      })
      const outcomes = await world.play(run(world, producer, 300, large ? 1000 : 1))
      for (const { result } of outcomes)
        assert.ifError(result instanceof PlayheadError ? result : null)
      check(world, outcomes)
      await world.play(producer.close())
      await world.play(world.cluster.close())
      // What the brokers and the network still had to do.
      await world.clock.advance(1000)
      assert.equal(world.clock.pending, 0)
    }),
    { numRuns: 25 }
  )
})

test('with refusals and short deadlines too: what is told of each value is true', async () => {
  let failures = 0
  await fc.assert(
    fc.asyncProperty(fc.integer(), often, batches, async (seed, oneIn, { large, compression }) => {
      const world = new World({ seed })
      world.onProduce = () => somethingWrong(world, oneIn, true)
      const producer = new Producer(world.cluster, {
        compression,
        batchBytes: large ? 9000 : 150,
        requestTimeoutMs: 300,
        deliveryTimeoutMs: 700,
        maxBufferedBytes: large ? 60_000 : 5000
      })
      const outcomes = await world.play(run(world, producer, 300, large ? 1000 : 1))
      failures += outcomes.filter(({ result }) => result instanceof PlayheadError).length
      await world.play(producer.close())
      check(world, outcomes)
      await world.play(world.cluster.close())
      // What the brokers and the network still had to do.
      await world.clock.advance(1000)
      assert.equal(world.clock.pending, 0)
    }),
    { numRuns: 25 }
  )
  assert.ok(failures > 0, 'something failed in these runs')
})
