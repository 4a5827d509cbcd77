"""Declares, parses, documents, completes and runs commands.

command      the base class, its options, and the Python function made from it
parser       turns a command line into a command (argparse splits the words; our own rules are here)
help         --help
completion   completion scripts for shells
renames      names of the last release that have changed
main         the entry point: errors and exit codes
display      shows progress: in a terminal, a notebook, to a function, or not at all
output       standard output, whatever its encoding
"""
