import { clients } from './agent.ts'
import { stories } from './stories.ts'

stories(clients.platformatic)
