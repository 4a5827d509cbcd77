"""The objects that commands return in Python, one class for each kind of folder."""
