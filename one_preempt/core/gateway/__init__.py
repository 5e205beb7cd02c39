"""Which zone of a federation gets the next external request, from what is known of the zones and of former requests.

No part of a decision: a scheduler serves one zone. The policies themselves are in `core/workload_allocation` (JPDC12
section 4.1, how much) and `core/dispatch` (section 4.2, in which order).
"""
