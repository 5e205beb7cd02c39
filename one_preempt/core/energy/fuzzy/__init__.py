"""A small fuzzy engine: triangular sets, singleton fuzzifier, product inference, centre-average defuzzifier."""
