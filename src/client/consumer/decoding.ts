/** What a record needs of its consumer: how it is decoded, and how it is committed when the application says so. */
import type { PlayheadError } from '../../base/error.ts'
import type { Serde } from '../serde.ts'
import type { Commits } from './commits.ts'
import { noLongerOurs } from './errors.ts'
import type { Events } from './events.ts'
import type { Settings } from './options.ts'
import type { Playhead } from './playhead.ts'
import type { ConsumerRecord } from './record.ts'

/** What all records of a consumer share. */
export interface Decoding {
  readonly key: Serde<unknown> | null
  readonly value: Serde<unknown> | null
  readonly skipPoison: boolean
  /** Is shown each record before it is handed out; null: nobody. */
  readonly seen: ((record: ConsumerRecord<never, never>) => void) | null
  skipped(error: PlayheadError): void
  commit(
    playhead: Playhead,
    epoch: number,
    offset: number,
    leaderEpoch: number,
    metadata?: string
  ): Promise<void>
}

/** `commits` throws where nothing can be committed. */
export function decodingOf(settings: Settings, events: Events, commits: () => Commits): Decoding {
  const { key, value, poison, onRecord } = settings
  return {
    key,
    value,
    seen: onRecord === null ? null : record => events.call('onRecord', () => onRecord(record)),
    skipPoison: poison === 'skip',
    skipped: error => events.emit('skipped', { error }),
    commit: async (playhead, epoch, offset, leaderEpoch, metadata) => {
      const to = commits()
      if (!playhead.alive) throw noLongerOurs(playhead)
      to.want(playhead, { epoch, offset, leaderEpoch, metadata })
      await to.settle([playhead])
    }
  }
}
