"""Bringing images to hosts before VMs start there: one file a way of doing it, behind the port `ImageTransfer`."""
