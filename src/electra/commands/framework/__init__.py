"""Declares, parses, documents and runs commands.

command   the base class, its options, and the Python function made from it
parser    turns a command line into a command, and a command into its --help
main      the entry point: errors and exit codes
"""
