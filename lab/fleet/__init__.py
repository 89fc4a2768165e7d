"""A fleet that is not there: the reports that its agents would send, the same for the same numbers and moment."""
