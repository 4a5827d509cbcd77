"""The contract of tasks (task), and base classes for kinds of tasks."""
