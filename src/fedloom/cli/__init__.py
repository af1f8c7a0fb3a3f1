"""The command line. Everything heavy is imported by the command that needs it, so that `fedloom --help` is quick."""

import sys


def main() -> None:
    """Run the command line; exit code 0 done, 1 failed, 2 bad input, 130 stopped by Ctrl-C."""
    from fedloom.cli.app import app
    from fedloom.cli.show import complain

    try:
        app()
    except (ValueError, FileNotFoundError, NotADirectoryError, PermissionError) as error:
        from fedloom.training.engine import NotFinite

        complain(str(error))
        sys.exit(1 if isinstance(error, NotFinite) else 2)
    except (OSError, RuntimeError) as error:
        complain(str(error))
        sys.exit(1)
