"""Parts that objectives share: the interface, masking, replacement and the output layer."""
