"""What happened in a session: how facts are kept, read, and turned into what a model sees."""
