"""An XML-RPC endpoint over a simulated cloud, as oned answers."""
