"""Statistics of scores and of vectors: intervals, rankings, calibration, correlation, similarity."""
