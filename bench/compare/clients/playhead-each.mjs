// Playhead by `for await` over single records.
import { adapter } from '../lib/playhead.mjs'

export const { info, consumer, producer } = adapter(
  'for await of each record',
  async (consumer, onValue) => {
    for await (const record of consumer) onValue(record.value)
  }
)
