# SPDX-License-Identifier: MIT
"""main() of the Python tests: runs them, and tells ctest of skipping in its own way."""

import sys
import unittest


def main():
    program = unittest.main(exit=False, verbosity=2)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    # A class that is skipped as a whole counts as skipped but not as run.
    if len(result.skipped) >= result.testsRun:
        print("SKIPPED: " + "; ".join(sorted({why for _, why in result.skipped})))
        sys.exit(77)
