"""Child processes: nothing else in Aar starts one.

`group.open_process` and `command.run_command` start them, `guard.open_guard` sees to it that they end with Aar,
`environment.child_environment` keeps keys away from them, `orphans.reap_stale` ends what a killed Aar left behind.
"""
