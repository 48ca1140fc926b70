/** Live rewinds of groups of KIP-848 on a real Kafka, rule by rule (invariants.md, W). */
import { rules } from './rewind/rules.ts'

rules('consumer')
