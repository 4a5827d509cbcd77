"""What all commands share: how one is declared, parsed, documented and completed; where its words go.

command      the base class, its options, and the Python function made of it
parser       a command line as a command (argparse splits the words; every rule of ours is here)
pages        --help
completion   scripts for shells
renames      what was called otherwise in the last release
main         the entry point: errors and exit codes
display      who hears of progress: a terminal, a notebook, a function, nobody
output       standard output, whatever its encoding
"""
