"""The objects that commands return in Python, each for a folder that was written."""
