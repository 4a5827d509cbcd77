"""Every command: its options, what it does, and the function of the same name in Python."""
