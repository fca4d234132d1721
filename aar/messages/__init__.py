"""Typed messages: the ground floor. Nothing here knows of Trio, files or the network."""
