"""What the interfaces for people in a terminal have in common, however they draw it."""
