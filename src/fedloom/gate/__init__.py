"""The gate: everything from outside passes here before it is believed.

words       the one error, and how a value is shown in a message
yaml_text   strict YAML, with line and column
options     things by name, with options as text
json_text   strict JSON
names       names and folders that cannot leave their place
files       regular files only, never more than so many bytes
table_text  CSV tables, and numbers as text
arrays      .npy and .npz by what their headers declare
finite      numbers that are finite and in range, or the first that is not
child       a process of its own for parsers that can crash; mat and parquet are two
"""

from fedloom.gate.words import Refused, shown

__all__ = ["Refused", "shown"]
