// Playhead by run(): a handler for each record, partitions side by side.
import { adapter } from '../lib/playhead.mjs'

export const { info, consumer, producer } = adapter('run(), a handler each', (consumer, onValue) =>
  consumer.run(record => onValue(record.value))
)
