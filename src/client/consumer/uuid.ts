/** Names that a client makes itself. */

/** A UUID (version 4) as text, from 16 random bytes. */
export function uuid(random: Buffer): string {
  const bytes = Buffer.from(random)
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}
