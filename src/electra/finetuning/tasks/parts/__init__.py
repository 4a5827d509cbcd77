"""What tasks share: the contract (task), and the kinds of tasks."""
