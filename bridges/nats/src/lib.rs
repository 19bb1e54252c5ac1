//! Durable queues: a queue into a stream of NATS JetStream and out of it, at least once.
