"""Mutation fuzzing of every parser: changed inputs may give a right result or one clear line, nothing else.

python -m tests.gate.fuzz --n 100000                    every parser
python -m tests.gate.fuzz --n 100000 --parser mat       one of them
python -m tests.gate.fuzz --parser mat --only 4711      one input again, with what comes of it
"""
