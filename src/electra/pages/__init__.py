"""Pages and figures from the files of a run. Runs without torch; matplotlib is optional."""
