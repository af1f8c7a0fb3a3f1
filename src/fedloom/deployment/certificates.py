"""Certificates: a private authority for one federation, and one certificate for every node, with its role and name.

    subject alternative name   DNS:edge-3, URI:fedloom://RUN/edge/edge-3
    extended key usage         client; and server for those who serve

A node is called by its name, and TLS sees to it that who answers has a certificate of this name. Who calls is known by the URI of
its certificate, whatever its letters say. The key of the authority never leaves the folder it was made in.
"""

import datetime
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedloom.deployment.naming import Identity, identity_of

SCHEME = "fedloom"
ANEW = "fedloom deploy add DIR NODE"
DAYS = 3650


@dataclass(frozen=True)
class Credentials:
    """What a node needs for TLS, as PEM: its certificate and key, and the certificate of the authority."""

    certificate: bytes
    key: bytes
    authority: bytes


class Authority:
    """Signs certificates of one run."""

    def __init__(self, run: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.run, self._certificate, self._key = run, certificate, key

    @classmethod
    def new(cls, run: str) -> "Authority":
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"fedloom {run}")
        made = (
            _builder(name, name, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(run, made, key)

    @classmethod
    def read(cls, folder: Path, run: str) -> "Authority":
        """From the folder that it was saved in."""
        key = serialization.load_pem_private_key((folder / "ca-key.pem").read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(
                f"{folder / 'ca-key.pem'} is no key of this program; take the folder that `deploy init` made"
            )
        return cls(run, x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes()), key)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ca.pem").write_bytes(self.pem)
        write_secret(folder / "ca-key.pem", _key_bytes(self._key))

    @property
    def pem(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str, *, serves: bool, role: str | None = None) -> Credentials:
        """A certificate for a node. role: if not what its name says (for tests of what is refused)."""
        key = ec.generate_private_key(ec.SECP256R1())
        role = role or identity_of(name).role
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if serves else [])]
        names = [x509.DNSName(name), x509.UniformResourceIdentifier(f"{SCHEME}://{self.run}/{role}/{name}")]
        made = (
            _builder(_name(name), self._certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Credentials(made.public_bytes(serialization.Encoding.PEM), _key_bytes(key), self.pem)


def fingerprint(pem: bytes) -> str:
    """By which a certificate is revoked."""
    return hashlib.sha256(x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)).hexdigest()


def check_credentials(given: Credentials, name: str, run: str, folder: Path) -> None:
    """ValueError if they are not whole, do not belong together, are another's, or are not valid now. Found at start: TLS would
    refuse each call without a reason."""
    try:
        part = "node.pem"
        made = x509.load_pem_x509_certificate(given.certificate)
        part = "ca.pem"
        authority = x509.load_pem_x509_certificate(given.authority)
        part = "key.pem"
        key = serialization.load_pem_private_key(given.key, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError(f"{folder / part} is not whole; copy the bundle again, or make another: {ANEW}") from None
    if made.public_key() != key.public_key():
        raise ValueError(
            f"{folder}: key.pem does not belong to node.pem; copy the whole bundle, or make another: {ANEW}"
        )
    try:
        made.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        raise ValueError(
            f"{folder}: node.pem is not signed by ca.pem; copy the whole bundle of one federation"
        ) from None
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    whose = who_is(" ".join(names.get_values_for_type(x509.UniformResourceIdentifier)), run)
    if whose.name != name:
        raise ValueError(
            f"{folder}: the certificate is of {whose.name}, the settings are of {name}; copy the whole bundle"
        )
    now, first, last = datetime.datetime.now(datetime.UTC), made.not_valid_before_utc, made.not_valid_after_utc
    if not first <= now <= last:
        raise ValueError(
            f"{folder}: the certificate is valid from {first:%Y-%m-%d} to {last:%Y-%m-%d}, and by the clock of this machine it "
            f"is {now:%Y-%m-%d}; set the clock, or make another: {ANEW}"
        )


def who_is(uri: str, run: str) -> Identity:
    """Whose certificate it is, from its URI; ValueError if it is of another run or does not agree with itself.

    >>> who_is("fedloom://ab12/edge/edge-3", "ab12")
    Identity(role='edge', name='edge-3')
    """
    scheme, _, rest = uri.partition("://")
    parts = rest.split("/")
    if scheme != SCHEME or len(parts) != 3:
        raise ValueError(f"a certificate of a node says {SCHEME}://RUN/ROLE/NAME, this one {uri[:100]!r}")
    whose, role, name = parts
    if whose != run:
        raise ValueError(f"the certificate of {name[:50]!r} is of the run {whose[:50]!r}, and this is {run}")
    found = identity_of(name)
    if found.role != role:
        raise ValueError(f"the certificate of {name!r} is made out for the role {role[:20]!r}")
    return found


def write_secret(path: Path, content: bytes) -> None:
    """A file that only its owner can read, from the first byte on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:60])])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks of small devices are not exact
        .not_valid_after(now + datetime.timedelta(days=DAYS))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
