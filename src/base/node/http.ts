/**
 * One question by HTTP, and its answer, in bounded time and memory. No redirect is followed, no connection kept. Node's
 * modules are loaded by the first question: few processes have one, and every import of ours would pay for them.
 */

export interface HttpQuestion {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly timeoutMs: number
  /** More than this in an answer, and it is refused. */
  readonly mostBytes: number
  /** Authorities to trust, PEM. Default: those that come with Node. */
  readonly ca?: string | Uint8Array | readonly (string | Uint8Array)[] | undefined
}

export interface HttpAnswer {
  readonly status: number
  readonly body: Buffer
}

/** Rejects with an Error whose message may be shown. */
export function post(question: HttpQuestion): Promise<HttpAnswer> {
  const { url, headers, body, timeoutMs, mostBytes, ca } = question
  return new Promise((resolve, reject) => {
    const how = {
      method: 'POST',
      headers: { ...headers, 'content-length': Buffer.byteLength(body) },
      agent: false
    } as const
    const request =
      url.protocol === 'https:'
        ? // Said even when true: otherwise NODE_TLS_REJECT_UNAUTHORIZED=0 would switch it off.
          process.getBuiltinModule('node:https').request(url, {
            ...how,
            rejectUnauthorized: true,
            ...(ca && { ca: ca as string[] })
          })
        : process.getBuiltinModule('node:http').request(url, how)
    const timer = setTimeout(
      () => request.destroy(new Error(`no answer within ${timeoutMs} ms`)),
      timeoutMs
    )
    request.on('close', () => clearTimeout(timer))
    request.on('error', reject)
    request.on('response', response => {
      const chunks: Buffer[] = []
      let bytes = 0
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length
        if (bytes > mostBytes)
          request.destroy(new Error(`an answer of more than ${mostBytes} bytes`))
        else chunks.push(chunk)
      })
      response.on('error', reject)
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks) })
      )
    })
    request.end(body)
  })
}
