"""VW07's model of reservations and their images as its simulations have it; the daemon has `core/image_staging`.

Nodes that are alike, and one link; megabytes and milliseconds. The policies for the link are those of the core.
"""
