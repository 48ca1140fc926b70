// What is measured. Every case runs in a process of its own with one client, through the client's adapter.
import { fork } from 'node:child_process'
import { Tally, dataset, markOf, numberOf, values } from './data.mjs'
import { connect, createTopic, deleteTopic, endOffsets, fetch, walk } from './wire.mjs'
import { Cpu, now, peakRss, percentiles, sleep } from './measure.mjs'

const unique = () => `${process.pid}-${Date.now().toString(36)}`
const idle = 500 // ms to wait for records that should not come

const consume = (records, size, codec = 'none', extra = {}) => ({
  kind: 'consume',
  records,
  size,
  codec,
  topic: `bench-${size}B-${codec}-${records}${extra.suffix ?? ''}`,
  prepare(brokers) {
    return dataset(brokers, this.topic, { count: records, size, codec, ...extra })
  },
  supports: info => codec === 'none' || info.codecs.includes(codec),
  async run(client, { brokers }) {
    const tally = new Tally(),
      expected = Tally.expected(records)
    const cpu = new Cpu(),
      start = now()
    let first = 0,
      last = 0,
      used = 0,
      finish
    const finished = new Promise(resolve => {
      finish = resolve
    })
    const sink = value => {
      if (tally.count === 0) first = now()
      tally.add(value)
      if (tally.count === records) {
        last = now()
        used = cpu.seconds()
        finish()
      }
    }
    const consumer = await client.consumer(
      {
        brokers,
        topic: this.topic,
        group: `g-${unique()}`,
        protocol: 'classic',
        profile: 'throughput'
      },
      sink
    )
    await finished
    const peak = peakRss()
    await sleep(idle)
    await consumer.close()
    if (!tally.equals(expected))
      throw new Error(`wrong records: ${JSON.stringify({ tally, expected })}`)
    return {
      rate: (records / (last - first)) * 1000,
      mb_s: (records * size) / (last - first) / 1000,
      from_start_s: (last - start) / 1000,
      first_ms: first - start,
      cpu_s_per_million: (used / records) * 1e6,
      cpu_s: used,
      rss_mb: peak / 1048576
    }
  }
})

const produceCase = (
  records,
  size,
  {
    idempotent = false,
    profile = 'throughput',
    window = 10_000,
    seconds = Infinity,
    any = false
  } = {}
) => ({
  kind: 'produce',
  records,
  size,
  idempotent,
  supports: info =>
    info.idempotence.length > 0 &&
    (any ? profile !== 'each' || !info.ceiling : info.idempotence.includes(idempotent)),
  async run(client, { brokers }) {
    const topic = `bench-out-${unique()}`,
      wire = await connect(brokers),
      text = client.info.text,
      at = values(records, size, text)
    await createTopic(wire, topic, 3)
    const chunk = profile === 'each' ? 1 : 1000 // records a send() call; `window` of them wait for their acknowledgement at any time
    const producer = await client.producer({ brokers, topic, idempotent, profile, size })
    // One record first: connections, metadata and producer ids are not part of the throughput.
    await producer.send([at(0)])
    const latency = [],
      weight = []
    const cpu = new Cpu(),
      start = now()
    let next = 0,
      acked = 0
    const limit = start + seconds * 1000
    await new Promise((resolve, reject) => {
      let flying = 0
      const launch = () => {
        while (flying < window && next < records && now() < limit) {
          const list = []
          const end = Math.min(records, next + chunk)
          while (next < end) list.push(at(next++))
          const k = list.length,
            sent = now()
          flying += k
          producer.send(list).then(() => {
            latency.push(now() - sent)
            weight.push(k)
            flying -= k
            acked += k
            if (acked === next && (next === records || now() >= limit)) resolve()
            else launch()
          }, reject)
        }
      }
      launch()
    })
    const took = now() - start,
      used = cpu.seconds(),
      peak = peakRss()
    await producer.close()
    const [p50, p99, max] = percentiles(latency, weight, [0.5, 0.99, 1])
    // What the broker has must be what was acknowledged, once each, plus the warm record (whose number is 0).
    const tally = new Tally(),
      expected = Tally.expected(acked),
      ends = await endOffsets(wire, topic, 3),
      offsets = [0, 0, 0]
    while (offsets.some((o, i) => o < ends[i])) {
      await fetch(
        wire,
        topic,
        offsets.map((o, p) => [p, o]),
        {},
        (p, bytes) => {
          offsets[p] = Math.max(
            offsets[p],
            walk(bytes, (b, s, e) => tally.add(b.subarray(s, e)))
          )
        }
      )
    }
    await deleteTopic(wire, topic)
    wire.close()
    tally.count--
    if (!tally.equals(expected))
      throw new Error(`wrong records: ${JSON.stringify({ tally, expected })}`)
    return {
      rate: (acked / took) * 1000,
      mb_s: (acked * size) / took / 1000,
      ack_p50_ms: p50,
      ack_p99_ms: p99,
      ack_max_ms: max,
      cpu_s_per_million: (used / acked) * 1e6,
      cpu_s: used,
      rss_mb: peak / 1048576,
      acked
    }
  }
})

const latencyCase = (perSecond, seconds, size) => ({
  kind: 'latency',
  supports: info => !info.ceiling,
  async run(client, { brokers }) {
    const topic = `bench-e2e-${unique()}`,
      wire = await connect(brokers)
    await createTopic(wire, topic, 3)
    const total = perSecond * seconds,
      real = [],
      planned = []
    let got = 0,
      seenWarm = 0,
      finish
    const finished = new Promise(resolve => {
      finish = resolve
    })
    const sentAt = new Float64Array(total),
      dueAt = new Float64Array(total)
    const sink = value => {
      const t = now()
      if (markOf(value) === 1) {
        seenWarm++
        return
      }
      const i = numberOf(value)
      real.push(t - sentAt[i])
      planned.push(t - dueAt[i])
      if (++got === total) finish()
    }
    const consumer = await client.consumer(
      { brokers, topic, group: `g-${unique()}`, protocol: 'classic', profile: 'latency' },
      sink
    )
    const producer = await client.producer({
      brokers,
      topic,
      idempotent: false,
      profile: 'latency'
    })
    const mark = (bytes, m) => {
      bytes[8] = 48 + m
      return client.info.text ? bytes.latin1Slice() : bytes
    }
    const make = values(total, size)
    for (let sent = 0; seenWarm < 300 && sent < 3000; sent++) {
      await producer.send([mark(make(0), 1)])
      await sleep(3)
    } // joined, and the JIT has seen it
    await sleep(500)
    const cpu = new Cpu(),
      start = now()
    let i = 0,
      failed
    await new Promise((resolve, reject) => {
      const tick = () => {
        const t = now() - start
        while (i < total && (i * 1000) / perSecond <= t) {
          const value = mark(make(i), 0)
          dueAt[i] = start + (i * 1000) / perSecond
          sentAt[i] = now()
          producer.send([value]).catch(error => {
            failed = error
            reject(new Error(error.message))
          })
          i++
        }
        if (i < total) setTimeout(tick, 1)
        else resolve()
      }
      tick()
    })
    await Promise.race([finished, sleep(5000)])
    const used = cpu.seconds()
    await producer.close()
    await consumer.close()
    await deleteTopic(wire, topic)
    wire.close()
    if (failed || got !== total) throw failed ?? new Error(`${got} of ${total} records arrived`)
    const [p50, p99, p999, max] = percentiles(real, null, [0.5, 0.99, 0.999, 1]),
      [, d99] = percentiles(planned, null, [0.5, 0.99])
    return {
      p50_ms: p50,
      p99_ms: p99,
      p999_ms: p999,
      max_ms: max,
      due_p99_ms: d99,
      cpu_s: used,
      rss_mb: peakRss() / 1048576
    }
  }
})

const joinCase = protocol => ({
  kind: 'join',
  supports: info => info.protocols.includes(protocol),
  async run(client, { brokers }) {
    const topic = `bench-join-${unique()}`,
      wire = await connect(brokers),
      group = `g-${unique()}`
    await createTopic(wire, topic, 3)
    const feeder = fork(
      new URL('./feeder.mjs', import.meta.url),
      [JSON.stringify({ brokers, topic, partitions: 3, every: 10 })],
      { execArgv: [] }
    )
    try {
      await sleep(300)
      const last = [0, 0, 0],
        gap = [0, 0, 0],
        firsts = [0, 0],
        counts = [0, 0]
      let watch = false
      const sink = member => value => {
        const t = now(),
          p = markOf(value)
        if (!firsts[member]) firsts[member] = t
        counts[member]++
        if (watch && last[p]) gap[p] = Math.max(gap[p], t - last[p])
        last[p] = t
      }
      const until = async (condition, ms) => {
        for (const end = now() + ms; now() < end && !condition(); ) await sleep(2)
      }
      const start = now()
      const one = await client.consumer(
        { brokers, topic, group, protocol, profile: 'latency' },
        sink(0)
      )
      await until(() => firsts[0], 30_000)
      await sleep(3000)
      watch = true
      const second = now()
      const two = await client.consumer(
        { brokers, topic, group, protocol, profile: 'latency' },
        sink(1)
      )
      await until(() => firsts[1], 30_000)
      await sleep(6000)
      for (let p = 0; p < 3; p++) gap[p] = Math.max(gap[p], now() - last[p]) // a partition that never came back
      watch = false
      const result = {
        join_ms: firsts[0] - start,
        second_ms: firsts[1] ? firsts[1] - second : null,
        stall_min_ms: Math.min(...gap),
        stall_max_ms: Math.max(...gap)
      }
      await Promise.race([Promise.allSettled([one.close(), two.close()]), sleep(3000)])
      if (!firsts[1]) throw new Error('the second member got no record in 30 s')
      return result
    } finally {
      feeder.kill()
      await deleteTopic(wire, topic).catch(() => {})
      wire.close()
    }
  }
})

const idleCase = seconds => ({
  kind: 'idle',
  supports: info => !info.ceiling,
  async run(client, { brokers }) {
    const topic = `bench-idle-${unique()}`
    await dataset(brokers, topic, { count: 300, size: 100 })
    let got = 0
    const consumer = await client.consumer(
      { brokers, topic, group: `g-${unique()}`, protocol: 'classic', profile: 'latency' },
      () => {
        got++
      }
    )
    while (got < 300) await sleep(20)
    await sleep(2000)
    const cpu = new Cpu()
    await sleep(seconds * 1000)
    const used = cpu.seconds(),
      rss = process.memoryUsage().rss
    await Promise.race([consumer.close(), sleep(3000)])
    return { cpu_ms_per_s: (used / seconds) * 1000, rss_mb: rss / 1048576 }
  }
})

export const cases = {
  'consume-100B': consume(2_000_000, 100),
  'consume-1KB': consume(500_000, 1024),
  'consume-100B-lz4': consume(2_000_000, 100, 'lz4'),
  'consume-100B-zstd': consume(2_000_000, 100, 'zstd'),
  'consume-100B-gzip': consume(2_000_000, 100, 'gzip'),
  'consume-100B-big': consume(2_000_000, 100, 'none', { suffix: '-big', batchBytes: 900_000 }),
  'produce-100B': produceCase(500_000, 100),
  'produce-100B-idem': produceCase(500_000, 100, { idempotent: true }),
  'produce-1KB': produceCase(200_000, 1024, { any: true }),
  'produce-100B-each': produceCase(300_000, 100, {
    profile: 'each',
    window: 1000,
    seconds: 4,
    any: true
  }),
  'e2e-1k': latencyCase(1000, 10, 100),
  'join-classic': joinCase('classic'),
  'join-848': joinCase('consumer'),
  idle: idleCase(10)
}
