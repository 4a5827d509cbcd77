"""What tests of tasks and probes share: contracts that each of ours passes, small networks and toy tasks."""
