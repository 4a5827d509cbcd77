"""What commands return in Python: the folder they wrote, as an object."""
