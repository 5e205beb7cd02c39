"""What OpenNebula tells of itself: the event bus of its hook manager."""
