"""Environments of peers: a virtual environment each, on top of the running one, whose torch and numpy they share.

Every package of a list is pinned and installed without its dependencies: nothing is pulled in that is not listed, above all
no second torch, and requirements that cannot be met (Flower asks for a certifi that is not published) do not stop it.
"""

import hashlib
import subprocess
import sys
import sysconfig
from pathlib import Path

LISTS = Path(__file__).parent / "peers" / "requirements"


def python_of(peer: str, venvs: Path) -> Path:
    """The interpreter of a peer, in an environment that is made if it is not there or its list has changed.

    Raises RuntimeError with pip's last words if it cannot be installed.
    """
    wanted = LISTS / f"{peer}.txt"
    if not wanted.exists():  # runs with what FedLoom runs with
        return Path(sys.executable)
    folder = venvs / peer
    python, ready = folder / "bin" / "python", folder / ".ready"
    digest = hashlib.sha256(wanted.read_bytes() + sys.executable.encode()).hexdigest()
    if not ready.exists() or ready.read_text() != digest:
        _call(sys.executable, "-m", "venv", "--clear", str(folder))
        home = _call(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        base = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
        (Path(home) / "base.pth").write_text(base)
        _call(
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "-r",
            str(wanted),
        )
        ready.write_text(digest)
    return python


def _call(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:4])}: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout
