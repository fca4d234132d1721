"""A live session used from another process of the same user, through a socket that its owner opens.

The owner (`owner.py`) tells what happens as it is recorded and hands what is said to the session's mailbox. The other
side (`attaching.py`) keeps a copy of the journal and gives a `SessionHandle` like any other.
"""
