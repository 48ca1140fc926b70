// Sends one small record to every partition every few milliseconds until it is killed. Character 8 is the partition.
import { batch, connect, produce } from './wire.mjs'
const { brokers, topic, partitions, every } = JSON.parse(process.argv[2])
const wire = await connect(brokers)
process.on('disconnect', () => process.exit())
for (let i = 0; ; i++) {
  await produce(
    wire,
    topic,
    Array.from({ length: partitions }, (_, p) => {
      const value = Buffer.from(String(i).padStart(8, '0') + p + '-'.repeat(91))
      return [p, batch([value])]
    })
  )
  await new Promise(done => setTimeout(done, every))
}
