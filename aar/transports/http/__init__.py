"""Serving HTTP: ports, who may ask, and how it ends. It knows nothing of what is served."""
