"""The version of the numbers: raised by every change that can alter what a run computes, books or measures.

Results that are kept (the cache of `fedloom reproduce`, records that are gone on with) are good only for the version that made
them. Changes to the look of a report, or to speed with the same bits, leave it alone.
"""

NUMBERS = 2
