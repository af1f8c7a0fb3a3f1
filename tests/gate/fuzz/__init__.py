"""Mutation fuzzing of every parser: changed inputs may give a right result or one clear line, nothing else.

python -m tests.gate.fuzz --n 100000                    every parser
python -m tests.gate.fuzz --n 100000 --parser mat       one of them
python -m tests.gate.fuzz --parser mat --only 4711      one input again, with what comes of it
python -m tests.gate.fuzz --n 2000 --coverage           which lines of the parsers' modules the inputs reach

Inputs run in a child process: one that kills the interpreter, hangs it or takes more than 4 GB is a fault with its number.
"""
