"""Can the VMs of a request be placed on the hosts together, and where: counted, exactly or by first fit."""
