"""What the API tells Prometheus: of the hosts, of the largest VMs, and of itself."""
