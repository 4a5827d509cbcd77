"""The contract of tasks (task.py), and a base class for each kind of task."""
