"""The Agent Client Protocol over standard input and output: how editors drive Aar."""
