"""What tools may do: policy, paths, commands, standing approvals, and where shell commands run.

Import from the modules: a program that never runs a tool should not load the policy.
"""
