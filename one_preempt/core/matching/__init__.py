"""Which host, datastore and networks a VM may have, and which of them it gets."""
