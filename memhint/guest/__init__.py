"""What a guest tells: the agent protocol, the sources from best to worst, strict parsing of untrusted answers."""
