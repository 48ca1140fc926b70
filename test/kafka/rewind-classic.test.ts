/** Live rewinds of classic groups on a real Kafka, rule by rule (invariants.md, W). */
import { rules } from './rewind/rules.ts'

rules('classic')
