/** Frames out of a byte stream, however it is cut; and streams that are no Kafka at all. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { ApiVersions } from '../../src/protocol/api/api-versions.ts'
import { Heartbeat } from '../../src/protocol/api/heartbeat.ts'
import {
  FrameSplitter,
  decodeRequest,
  decodeResponse,
  encodeRequest,
  encodeResponse,
  peekCorrelationId,
  readRequestStart
} from '../../src/protocol/frame.ts'

function sized(body: Uint8Array): Buffer {
  const frame = Buffer.alloc(4 + body.length)
  frame.writeInt32BE(body.length)
  frame.set(body, 4)
  return frame
}

describe('frames', () => {
  it('come out whole and in order, wherever the stream is cut', () => {
    const bodies = fc.array(fc.uint8Array({ minLength: 4, maxLength: 300 }), { maxLength: 8 })
    const cuts = fc.array(fc.integer({ min: 1, max: 64 }), { minLength: 1, maxLength: 50 })
    fc.assert(
      fc.property(bodies, cuts, fc.integer({ min: 4, max: 400 }), (frames, sizes, eager) => {
        const out: string[] = []
        const splitter = new FrameSplitter(f => out.push(f.toString('hex')), 1000, eager)
        const stream = Buffer.concat(frames.map(sized))
        for (let at = 0, i = 0; at < stream.length; i++) {
          const size = sizes[i % sizes.length] as number
          splitter.push(Buffer.from(stream.subarray(at, at + size)))
          at += size
        }
        assert.deepEqual(
          out,
          frames.map(f => Buffer.from(f).toString('hex'))
        )
        assert.equal(splitter.withinFrame, false)
      })
    )
  })

  for (const size of [0, -1, 3, 1001, 0x7fffffff, -0x80000000]) {
    it(`a size of ${size} is refused before anything is buffered`, () => {
      const splitter = new FrameSplitter(() => assert.fail('no frame'), 1000, 1000)
      const start = Buffer.alloc(4)
      start.writeInt32BE(size)
      assert.throws(() => splitter.push(start), { code: 'MALFORMED_FRAME' })
    })
  }

  const strangers = [
    ['HTTP/1.1 400 Bad Request', /HTTP/],
    ['GET / HTTP/1.1', /HTTP/],
    ['\x16\x03\x01\x02\x00', /TLS handshake/],
    ['\x15\x03\x03\x00\x02', /TLS alert/],
    ['SSH-2.0-OpenSSH_9', /SSH/]
  ] as const
  for (const [bytes, says] of strangers) {
    it(`${JSON.stringify(bytes)} is called what it looks like`, () => {
      const splitter = new FrameSplitter(() => assert.fail('no frame'), 100 << 20, 1 << 20)
      assert.throws(() => splitter.push(Buffer.from(bytes, 'latin1')), { message: says })
    })
  }

  it('a request and its response find each other by the correlation id', () => {
    const header = { correlationId: 77, clientId: 'größe' }
    const body = { groupId: 'g', generationId: 1, memberId: 'm' }
    for (const version of [0, 4]) {
      const request = Buffer.concat(encodeRequest(Heartbeat, version, header, body)).subarray(4)
      const start = readRequestStart(request)
      assert.deepEqual(start, { apiKey: 12, apiVersion: version, ...header })
      const read = decodeRequest(Heartbeat, version, request)
      assert.deepEqual(read, { ...body, groupInstanceId: null })

      const answer = { throttleTimeMs: 0, errorCode: 25 }
      const response = Buffer.concat(encodeResponse(Heartbeat, version, 77, answer)).subarray(4)
      assert.equal(peekCorrelationId(response), 77)
      assert.deepEqual(decodeResponse(Heartbeat, version, response), answer)
    }
  })

  it('an ApiVersions answer has no tagged fields in its header, in any version (KIP-511)', () => {
    const answer = { errorCode: 0, apiKeys: [] }
    for (let version = 0; version <= 4; version++) {
      const response = Buffer.concat(encodeResponse(ApiVersions, version, 1, answer)).subarray(4)
      assert.equal(response.readInt16BE(4), 0, 'the error code follows the correlation id')
    }
  })

  it('bytes left over after a message are malformed', () => {
    const response = Buffer.concat(encodeResponse(Heartbeat, 0, 1, { errorCode: 0 })).subarray(4)
    assert.throws(() => decodeResponse(Heartbeat, 0, Buffer.concat([response, Buffer.from([0])])), {
      code: 'MALFORMED_FRAME',
      message: /1 bytes left over/
    })
  })
})
