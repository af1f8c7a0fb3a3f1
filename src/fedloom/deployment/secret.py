"""What a node alone knows: the number from which it draws the noise that protects clients.

The run's seed is known to the cloud and to every device, and so is noise that is drawn from it: who knows it could take it away
again. A node therefore mixes its draws with a secret that it makes when it first needs one, keeps through a kill (noise of a
message that is made again must be the same, as two draws tell more than one), and sends to nobody.
"""

import os
from pathlib import Path

from fedloom.record.files import write_whole

FILE = "secret"
N_BYTES = 8


def secret_of(folder: Path | None) -> int:
    """The secret kept in a folder, made if there is none; without a folder, a new one."""
    if folder is None:
        return int.from_bytes(os.urandom(N_BYTES), "little")
    path = folder / FILE
    if not path.exists():
        write_whole(path, os.urandom(N_BYTES))
        path.chmod(0o600)
    found = path.read_bytes()
    if len(found) != N_BYTES:
        raise ValueError(f"{path} must hold {N_BYTES} bytes, got {len(found)}; delete it, and a new secret is made")
    return int.from_bytes(found, "little")
