"""A small creature that grows with a session's work: its mood, its level, and what it makes of the git folder.

`progress.Companion` is pure data that follows events; `git.count_dirty` asks git; `face` draws; `extension` is the
shipped extension, which is off unless `extensions.builtin` names it.
"""
