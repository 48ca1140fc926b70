/** DescribeConfigs (32): reads the configuration of topics, brokers and groups; a broker's own goes to that broker. */
import { api, array, bool, int16, int32, int8, string } from '../schema.ts'

export const DescribeConfigs = api({
  key: 32,
  name: 'DescribeConfigs',
  versions: [1, 4],
  flexible: 4,
  to: 'any',
  request: {
    resources: array({
      resourceType: int8(),
      resourceName: string(),
      configurationKeys: array(string(), { nullable: 1 })
    }),
    includeSynonyms: bool({ default: false }),
    includeDocumentation: bool({ since: 3, default: false })
  },
  response: {
    throttleTimeMs: int32(),
    results: array({
      errorCode: int16(),
      errorMessage: string({ nullable: 1 }),
      resourceType: int8(),
      resourceName: string(),
      configs: array({
        name: string(),
        value: string({ nullable: 1 }),
        readOnly: bool(),
        configSource: int8({ default: -1, ignorable: true }),
        isSensitive: bool(),
        synonyms: array(
          {
            name: string(),
            value: string({ nullable: 1 }),
            source: int8()
          },
          { ignorable: true }
        ),
        configType: int8({ since: 3, default: 0, ignorable: true }),
        documentation: string({ since: 3, nullable: 3, ignorable: true })
      })
    })
  }
})
