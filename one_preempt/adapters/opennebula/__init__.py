"""OpenNebula over XML-RPC: reading its pools (`pool_reader`) and acting on its VMs (`enactor`)."""
