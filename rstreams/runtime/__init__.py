"""The core under trio: scopes with their scheduler, terminals, and the portal for other threads."""
