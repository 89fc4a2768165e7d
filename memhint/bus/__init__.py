"""Reports from agents to controllers, and commands back: RabbitMQ, or within one process."""
