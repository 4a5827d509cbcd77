"""The code that heads share: the contract, the standard heads, and the linear model of hybrid heads."""
