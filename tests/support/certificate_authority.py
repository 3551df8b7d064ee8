"""Certificates for tests, made when they are needed."""

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

from gateway.transport.certificates import CertificateFiles


@dataclass(frozen=True, slots=True)
class CertificateAuthority:
    """An authority, and a folder for the files of its certificates."""

    folder: Path
    root: trustme.CA

    @classmethod
    def in_folder(cls, folder: Path) -> "CertificateAuthority":
        """A new authority. Its own certificate is in the file `ca.pem`."""
        folder.mkdir(exist_ok=True)
        made = cls(folder, trustme.CA(key_type=trustme.KeyType.ECDSA))
        made.root.cert_pem.write_to_path(made.ca)
        return made

    @property
    def ca(self) -> Path:
        """The file with its own certificate."""
        return self.folder / "ca.pem"

    def issue(self, name: str, *hosts: str) -> CertificateFiles:
        """Write a certificate for these hosts with the common name, and its key."""
        issued = self.root.issue_cert(
            *hosts or ("nowhere.example",), common_name=name, key_type=trustme.KeyType.ECDSA
        )
        cert, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        cert.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        # Kafka reads keys in this format only.
        loaded = serialization.load_pem_private_key(issued.private_key_pem.bytes(), password=None)
        key.write_bytes(
            loaded.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return CertificateFiles(ca=self.ca, cert=cert, key=key)

    def trusting(self) -> ssl.SSLContext:
        """A context of a client that trusts only this authority."""
        return ssl.create_default_context(cafile=f"{self.ca}")
