"""The command line. Everything heavy is imported by the command that needs it, so that `fedloom --help` is quick."""

import sys


def main() -> None:
    """Run the command line; exit codes: fedloom.cli.ends."""
    from fedloom.cli.app import app
    from fedloom.cli.ends import INTERRUPTED, TERMINATED, Said, end_on_sigterm, explained
    from fedloom.cli.show import complain

    end_on_sigterm()
    try:
        app()
    except Said:
        raise
    except SystemExit as end:
        if end.code in (INTERRUPTED, TERMINATED):
            complain("stopped")
        raise
    except Exception as error:
        found = explained(error)
        if found is None:
            raise
        complain(found[0])
        sys.exit(found[1])
