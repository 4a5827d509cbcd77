"""The networks: encoders, pre-training heads, weight sharing, FLOP counts, batched inference."""
