/** The stories of `run`, told to the embedded broker, as it is and playing older ones. */
import { after, before, describe } from 'node:test'
import { Broker } from '../../../src/broker.ts'
import { older } from '../older.ts'
import { runStories } from './run-stories.ts'

for (const [name, maxVersions] of [['as it is', undefined] as const, ...Object.entries(older)]) {
  describe(`the embedded broker, ${name}`, () => {
    let broker: Broker

    before(async () => {
      broker = await Broker.start(maxVersions === undefined ? {} : { maxVersions })
    })
    after(() => broker.close())

    runStories(
      () => broker.bootstrap,
      maxVersions === undefined ? ['consumer', 'classic'] : ['classic']
    )
  })
}
