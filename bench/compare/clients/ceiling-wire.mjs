// How fast plain Node can be: lib/wire.mjs with no group, no commits, no checks of checksums, no objects for records, one
// Fetch ahead of the one being read. A real client has to do more, so this bounds it from above.
import { batch, connect, fetch, produce, walk } from '../lib/wire.mjs'

export const info = {
  package: 'lib/wire.mjs',
  version: '',
  language: 'js',
  ceiling: true,
  protocols: [],
  idempotence: [false],
  codecs: [],
  api: {
    consume: 'Fetch v4, uncompressed only, one request ahead',
    produce: 'Produce v3, one batch for a send()'
  }
}

export async function consumer({ brokers, topic }, onValue) {
  const wire = await connect(brokers),
    offsets = [0, 0, 0]
  let open = true
  const next = () => {
    // takes the offsets from the batch headers and asks for more before any record is read
    const parts = []
    return fetch(
      wire,
      topic,
      offsets.map((o, p) => [p, o]),
      {},
      (p, bytes) => {
        const after = walk(bytes)
        if (after >= 0) {
          offsets[p] = after
          parts.push(bytes)
        }
      }
    ).then(() => parts)
  }
  const loop = async () => {
    let coming = next()
    while (open) {
      const parts = await coming
      coming = next()
      coming.catch(() => {})
      for (const bytes of parts) walk(bytes, (b, start, end) => onValue(b.subarray(start, end)))
    }
  }
  loop().catch(error => {
    if (open) console.error(error)
  })
  return {
    close: async () => {
      open = false
      wire.close()
    }
  }
}

export async function producer({ brokers, topic }) {
  const wire = await connect(brokers)
  let turn = 0
  return {
    send: values => produce(wire, topic, [[turn++ % 3, batch(values)]]),
    close: async () => wire.close()
  }
}
