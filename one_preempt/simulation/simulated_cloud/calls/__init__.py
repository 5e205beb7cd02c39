"""The calls of oned's interface, as methods of the cloud, by what they are about."""
