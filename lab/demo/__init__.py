"""The main job, shown on real guests: they free memory, the host gets it back, and more VMs really run."""
