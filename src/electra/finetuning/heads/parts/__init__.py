"""What heads share: the contract, the layers of plain heads, and the linear answer of `bag` and `compare`."""
