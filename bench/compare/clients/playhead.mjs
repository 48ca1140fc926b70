// Playhead by batches(), sendMany() and send(): the bundle that the package ships, with its defaults.
import { adapter } from '../lib/playhead.mjs'

export const { info, consumer, producer } = adapter(
  'batches(), each value touched',
  async (consumer, onValue) => {
    for await (const batch of consumer.batches()) for (const record of batch) onValue(record.value)
  }
)
