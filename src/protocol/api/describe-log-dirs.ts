/** DescribeLogDirs (35): lists a broker's directories and the sizes of the replicas in them. */
import { api, array, bool, int16, int32, int64, string } from '../schema.ts'

export const DescribeLogDirs = api({
  key: 35,
  name: 'DescribeLogDirs',
  versions: [1, 5],
  flexible: 2,
  to: 'node',
  request: {
    topics: array(
      {
        topic: string(),
        partitions: array(int32())
      },
      { nullable: 1 }
    )
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16({ since: 3, ignorable: true }),
    results: array({
      errorCode: int16(),
      logDir: string(),
      topics: array({
        name: string(),
        partitions: array({
          partitionIndex: int32(),
          partitionSize: int64(),
          offsetLag: int64(),
          isFutureKey: bool()
        })
      }),
      totalBytes: int64({ since: 4, default: -1, ignorable: true }),
      usableBytes: int64({ since: 4, default: -1, ignorable: true }),
      isCordoned: bool({ since: 5, default: false, ignorable: true })
    })
  }
})
