"""Writes pages and figures from the files in a folder. Needs no torch; matplotlib is optional."""
