// A real Kafka around a run of tests: started on free ports under a name of its own, taken down
// whatever happens. The script ends it too when this process dies without a word (KAFKA_OWNER).

import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { promisify } from 'node:util'

const script = join(import.meta.dirname, 'kafka')
const execute = promisify(execFile)

/** Calls `run` with the environment its tests need, and resolves to what it resolves to. */
export async function withKafka(run) {
  const name = `test-${process.pid}-${randomBytes(3).toString('hex')}`
  const env = { KAFKA_HEAP: '400m', ...process.env, KAFKA_OWNER: String(process.pid) }
  const down = () => execute(script, ['down', name])
  // Until the tests run (and take signals over), a signal during the start ends us, and the owner watch the cluster.
  const startedAt = performance.now()
  try {
    const { stdout } = await execute(script, ['up', name, '1', 'free'], { env })
    const bootstrap = stdout.trim()
    process.stdout.write(
      `kafka: ${name} at ${bootstrap}, up in ${((performance.now() - startedAt) / 1000).toFixed(1)} s\n`
    )
    return await run({ KAFKA_BOOTSTRAP: bootstrap, KAFKA_SCRIPT: script, KAFKA_NAME: name })
  } finally {
    await down()
  }
}
