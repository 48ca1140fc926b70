/** DescribeConfigs: the settings of topics, groups and brokers. */
import { DescribeConfigs } from '../../protocol/api/describe-configs.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { RequestRead } from '../../protocol/schema.ts'
import { type Context, handler } from '../handler.ts'
import { type DescribedConfig, describeResource, type Fault } from '../resource-configs.ts'

type Request = RequestRead<typeof DescribeConfigs>
type Asked = Request['resources'][number]

export const handleDescribeConfigs = handler({
  api: DescribeConfigs,
  handle: (request, context) => ({
    throttleTimeMs: 0,
    results: request.resources.map(asked => answerFor(asked, request.includeSynonyms, context))
  })
})

function answerFor(asked: Asked, includeSynonyms: boolean, { node, cluster }: Context) {
  const { resourceType, resourceName, configurationKeys } = asked
  const found = describeResource(asked, node, cluster)
  if (isFault(found)) {
    const [errorCode, errorMessage] = found
    return { errorCode, errorMessage, resourceType, resourceName, configs: [] }
  }
  const configs = found
    .filter(({ name }) => configurationKeys === null || configurationKeys.includes(name))
    .map(({ source, type, synonyms, ...config }) => ({
      ...config,
      configSource: source,
      configType: type,
      isSensitive: false,
      synonyms: includeSynonyms ? synonyms : [],
      documentation: null
    }))
  return { errorCode: KafkaError.NONE, errorMessage: null, resourceType, resourceName, configs }
}

function isFault(found: DescribedConfig[] | Fault): found is Fault {
  return typeof found[0] === 'number'
}
