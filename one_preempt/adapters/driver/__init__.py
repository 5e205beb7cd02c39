"""The scheduler driver interface of OpenNebula 7.x: the document on standard input, the plan on standard output."""
