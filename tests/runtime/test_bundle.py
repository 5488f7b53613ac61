from pathlib import Path

import pytest

from specc_runtime.bundle import open_bundle
from specc_runtime.errors import BundleError, IntegrityError, ManifestError
from tests.support.manifests import small_manifest, write_bundle


@pytest.mark.parametrize("verify", ["sizes", "hashes"])
def test_a_whole_bundle_opens(tmp_path: Path, verify: str) -> None:
    bundle = open_bundle(write_bundle(tmp_path), verify)
    assert bundle.manifest == small_manifest()
    assert bundle.path("programs/verifier.onnx").read_bytes() == b"abc"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (write_bundle(tmp_path) / "tokenizer.json").unlink()
    with pytest.raises(IntegrityError, match=r"tokenizer.json: missing; re-copy or re-compile"):
        open_bundle(tmp_path)


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    (write_bundle(tmp_path) / "head_ids.npy").write_bytes(b"ab")
    with pytest.raises(IntegrityError, match=r"head_ids.npy: 2 bytes, not 3"):
        open_bundle(tmp_path)


def test_a_changed_byte_shows_in_the_hash_only(tmp_path: Path) -> None:
    (write_bundle(tmp_path) / "head_ids.npy").write_bytes(b"abd")
    open_bundle(tmp_path, "sizes")
    with pytest.raises(IntegrityError, match=r"head_ids.npy: changed since it was compiled"):
        open_bundle(tmp_path, "hashes")


def test_a_link_that_leaves_the_bundle_is_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"abc")
    root = write_bundle(tmp_path / "bundle")
    (root / "tokenizer.json").unlink()
    (root / "tokenizer.json").symlink_to(outside)
    with pytest.raises(IntegrityError, match="leads outside the bundle"):
        open_bundle(root)


def test_a_linked_folder_that_leaves_the_bundle_is_refused(tmp_path: Path) -> None:
    root = write_bundle(tmp_path / "bundle")
    (root / "programs").rename(tmp_path / "programs")
    (root / "programs").symlink_to(tmp_path / "programs")
    with pytest.raises(IntegrityError, match="leads outside the bundle"):
        open_bundle(root)


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    root = write_bundle(tmp_path)
    (root / "tokenizer.json").unlink()
    (root / "tokenizer.json").symlink_to(root / "tokenizer.json")
    with pytest.raises(IntegrityError, match=r"tokenizer\.json"):
        open_bundle(root)


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    root = write_bundle(tmp_path)
    (root / "tokenizer.json").unlink()
    (root / "tokenizer.json").mkdir()
    with pytest.raises(IntegrityError, match="not a plain file"):
        open_bundle(root)


def test_a_linked_bundle_opens(tmp_path: Path) -> None:
    write_bundle(tmp_path / "bundle")
    (tmp_path / "link").symlink_to(tmp_path / "bundle")
    assert open_bundle(tmp_path / "link").manifest == small_manifest()


def test_a_folder_without_a_manifest(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"manifest.json: missing; give the folder"):
        open_bundle(tmp_path)


def test_no_folder_at_all(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BundleError, match="it is a file"):
        open_bundle(tmp_path / "file")
    with pytest.raises(BundleError, match="nothing is there"):
        open_bundle(tmp_path / "nothing")


def test_an_unknown_way_to_verify(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="expected 'sizes' or 'hashes'"):
        open_bundle(write_bundle(tmp_path), "everything")
