"""The command line. Everything heavy is imported by the command that needs it, so that `fedloom --help` is quick."""

import sys


def main() -> None:
    """Run the command line; exit codes: fedloom.cli.ends."""
    try:  # from the first import on, so that Ctrl-C shows no traceback
        from fedloom.cli.ends import Ended, end_at_once, end_on_sigterm

        end_on_sigterm()
        try:
            _run()
        except Ended:
            sys.stderr.write("fedloom: stopped\n")
            raise
        finally:
            end_at_once()
    except KeyboardInterrupt:
        sys.stderr.write("fedloom: stopped\n")
        sys.exit(130)


def _run() -> None:
    from fedloom.cli.app import app
    from fedloom.cli.ends import INTERRUPTED, TERMINATED, Said, explained
    from fedloom.cli.show import complain

    try:
        app()
    except Said:
        raise
    except SystemExit as end:
        if end.code in (INTERRUPTED, TERMINATED):
            complain("stopped")
        raise Said(end.code) from None
    except Exception as error:
        found = explained(error)
        if found is None:
            raise
        complain(found[0])
        sys.exit(found[1])
