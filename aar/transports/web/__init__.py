"""The web API: other programs chat with Aar over HTTP and get what happened, or read along."""
