"""The contract of tasks (task.py), and the base classes of each kind of task."""
