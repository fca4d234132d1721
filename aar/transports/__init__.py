"""Ways to reach Aar. Each is a folder that knows the client and nothing below it."""
