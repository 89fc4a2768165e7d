"""The per-host daemon: observe, plan, pull levers, publish, in cycles that no single VM can hold up."""
