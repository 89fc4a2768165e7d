"""The per-host daemon: observe, plan, pull levers, publish; over and over, whatever one VM does."""
