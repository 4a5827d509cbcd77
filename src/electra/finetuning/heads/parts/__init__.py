"""What heads share: the contract, the plain heads, and the linear model of the hybrid heads."""
