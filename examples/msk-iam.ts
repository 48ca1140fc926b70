/**
 * A SASL mechanism of your own: AWS_MSK_IAM, by which Amazon MSK lets in who may by IAM. One message: the parameters of
 * a signed URL (Signature Version 4) as JSON. It needs nothing of AWS but the credentials.
 *
 *   npm run build && AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=… AWS_REGION=… PLAYHEAD_BOOTSTRAP=b-1.…:9098 \
 *     node build/examples/msk-iam.js
 *
 * In a project of your own the import is from 'playhead', and credentials that are renewed come from
 * `fromNodeProviderChain()` of @aws-sdk/credential-providers.
 */
import { createHash, createHmac } from 'node:crypto'
import { Playhead, type SaslMechanism } from '../src/index.ts'

interface AwsCredentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string | undefined
}

export interface MskIamOptions {
  readonly region: string
  /** Asked for each authentication, also when a session is renewed. */
  readonly credentials: () => Promise<AwsCredentials> | AwsCredentials
  /** For tests. */
  readonly now?: () => Date
}

const service = 'kafka-cluster'
const algorithm = 'AWS4-HMAC-SHA256'
/** MSK takes a signature for so long. */
const lifeSeconds = 900

export function mskIam({
  region,
  credentials,
  now = () => new Date()
}: MskIamOptions): SaslMechanism {
  return {
    name: 'AWS_MSK_IAM',
    async authenticate(say, { host, encrypted }) {
      if (!encrypted) throw new Error('MSK speaks IAM over TLS alone')
      const message = signed(host, region, await credentials(), now())
      const answer = await say(Buffer.from(JSON.stringify(message)))
      if (answer.length === 0) throw new Error('MSK accepts with a request id, and there is none')
    }
  }
}

function signed(host: string, region: string, credentials: AwsCredentials, date: Date) {
  const { accessKeyId, secretAccessKey, sessionToken } = credentials
  const time = date.toISOString().replace(/[-:]|\.\d{3}/g, '')
  const day = time.slice(0, 8)
  const scope = `${day}/${region}/${service}/aws4_request`
  const query = {
    Action: 'kafka-cluster:Connect',
    'X-Amz-Algorithm': algorithm,
    'X-Amz-Credential': `${accessKeyId}/${scope}`,
    'X-Amz-Date': time,
    'X-Amz-Expires': String(lifeSeconds),
    ...(sessionToken !== undefined && { 'X-Amz-Security-Token': sessionToken }),
    'X-Amz-SignedHeaders': 'host'
  }
  const pairs = Object.entries(query).map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
  const request = ['GET', '/', pairs.join('&'), `host:${host}`, '', 'host', sha256('')].join('\n')
  const toSign = [algorithm, time, scope, sha256(request)].join('\n')
  const key = [day, region, service, 'aws4_request'].reduce<string | Buffer>(
    hmac,
    `AWS4${secretAccessKey}`
  )
  const parameters = Object.entries(query).map(([name, value]) => [name.toLowerCase(), value])
  return {
    version: '2020_10_22',
    host,
    'user-agent': 'playhead',
    ...Object.fromEntries(parameters),
    'x-amz-signature': hmac(key, toSign).toString('hex')
  }
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}

if (process.argv[1] === import.meta.filename) {
  const { AWS_REGION: region = '', PLAYHEAD_BOOTSTRAP: bootstrap = '' } = process.env
  const credentials = () => ({
    accessKeyId: process.env['AWS_ACCESS_KEY_ID'] ?? '',
    secretAccessKey: process.env['AWS_SECRET_ACCESS_KEY'] ?? '',
    sessionToken: process.env['AWS_SESSION_TOKEN']
  })
  await using kafka = new Playhead({
    bootstrap: bootstrap.split(','),
    tls: true,
    sasl: { mechanism: mskIam({ region, credentials }) }
  })
  const { brokers } = await kafka.cluster.refresh()
  console.log(`${brokers.size} brokers let us in`)
}
