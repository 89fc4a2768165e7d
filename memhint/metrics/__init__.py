"""What agent and controller share to show metrics to Prometheus. Nothing here is loaded where that is off."""
