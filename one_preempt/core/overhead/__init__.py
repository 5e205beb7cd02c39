"""What preempting a lease costs: the models of CCPE13 with the paper's symbols, and prices for oned's methods."""
