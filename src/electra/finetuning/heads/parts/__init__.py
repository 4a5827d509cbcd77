"""The code that heads share: the contract, the standard heads, and the fit of linear models."""
