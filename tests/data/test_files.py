"""Finding, reading, checking and fetching files, on small files written here in the published formats."""

import gzip
import hashlib
import http.server
import io
import tarfile
import threading
import tracemalloc
import zipfile

import numpy as np
import pytest
from scipy.io import savemat

from fedloom.data import check, fetch, files, find, load, looking, places, reading, sources
from fedloom.gate.files import Bounded

IMAGES = np.arange(5 * 6 * 7, dtype=np.uint8).reshape(5, 6, 7)
LABELS = np.array([3, 1, 4, 1, 5], dtype=np.uint8)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """No test sees this machine's cache or settings."""
    monkeypatch.delenv("FEDLOOM_DATA", raising=False)
    for module in (looking, files):
        monkeypatch.setattr(module, "cache_directory", lambda: tmp_path / "cache")


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def write_idx(folder, *, compress=True, images=IMAGES):
    folder.mkdir(parents=True, exist_ok=True)
    for prefix in ("train", "t10k"):
        for kind, array in (("images-idx3", images), ("labels-idx1", LABELS)):
            name, data = f"{prefix}-{kind}-ubyte", idx(array)
            if compress:
                (folder / f"{name}.gz").write_bytes(gzip.compress(data))
            else:
                (folder / name).write_bytes(data)


def cifar_rows(n, n_label_bytes, seed=0):
    rows = np.random.default_rng(seed).integers(0, 256, size=(n, n_label_bytes + 3072), dtype=np.uint8)
    rows[:, :n_label_bytes] = np.arange(n)[:, None] % 10
    return rows


CIFAR10 = [
    *(f"cifar-10-batches-bin/data_batch_{i}.bin" for i in range(1, 6)),
    "cifar-10-batches-bin/test_batch.bin",
]


def write_tar(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("sub", ["mnist", ".", "MNIST/raw"])
def test_idx_files_are_read_gzipped_or_plain_in_each_layout(tmp_path, compress, sub):
    write_idx(tmp_path / sub, compress=compress)
    data = load("mnist:own", tmp_path)
    assert np.array_equal(data.x_train[:, 0], IMAGES) and data.x_train.shape == (5, 1, 6, 7)
    assert np.array_equal(data.y_test, LABELS)


def test_an_installed_system_package_is_found(tmp_path, monkeypatch):
    assert str(places("fashion-mnist")[-1]) == "/usr/share/datasets/fashion-mnist"
    write_idx(tmp_path / "package")
    source = sources.SOURCES["fashion-mnist"]
    changed = sources.Source(alternatives=source.alternatives, system=(str(tmp_path / "package"),), home=source.home)
    monkeypatch.setitem(sources.SOURCES, "fashion-mnist", changed)
    assert load("fashion-mnist:own").n_train == 5


def test_directory_comes_before_the_environment_and_that_before_the_cache(tmp_path, monkeypatch):
    for place in ("given", "set", "cache"):
        write_idx(tmp_path / place / "mnist")
    assert find("mnist")["train-images-idx3-ubyte"].path.parent == tmp_path / "cache" / "mnist"
    monkeypatch.setenv("FEDLOOM_DATA", str(tmp_path / "set"))
    assert find("mnist")["train-images-idx3-ubyte"].path.parent == tmp_path / "set" / "mnist"
    given = find("mnist", tmp_path / "given")
    assert given["train-images-idx3-ubyte"].path.parent == tmp_path / "given" / "mnist"


def test_a_given_directory_is_the_only_place(tmp_path, monkeypatch):
    write_idx(tmp_path / "set" / "mnist")
    monkeypatch.setenv("FEDLOOM_DATA", str(tmp_path / "set"))
    with pytest.raises(FileNotFoundError):
        find("mnist", tmp_path / "given")


def test_missing_files_are_named_with_the_places_and_the_ways_out(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLOOM_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError) as caught:
        load("cifar10")
    message = str(caught.value)
    for part in (
        "dataset cifar10: no cifar-10-batches-bin/data_batch_1.bin",
        "cifar-10-binary.tar.gz",
        f"{tmp_path / 'cifar10'} (no such folder)",
        str(tmp_path / "cache"),
        "`fedloom data cifar10` (needs internet)",
        "--from DIR",
        "FEDLOOM_DATA",
    ):
        assert part in message


def test_an_incomplete_folder_is_told_what_it_lacks(tmp_path):
    write_idx(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(FileNotFoundError, match="has 3 of 4 files and lacks t10k-labels-idx1-ubyte"):
        load("mnist:own", tmp_path)


def test_files_of_two_places_are_never_mixed(tmp_path):
    write_idx(tmp_path)
    write_idx(tmp_path / "mnist", images=IMAGES + 1)
    (tmp_path / "mnist" / "train-labels-idx1-ubyte.gz").unlink()
    assert {hit.path.parent for hit in find("mnist", tmp_path).values()} == {tmp_path}


def test_a_dataset_without_downloads_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no automatic download.*archive.ics.uci.edu.*--from DIR"):
        load("hapt", tmp_path)
    with pytest.raises(ValueError, match="dataset hapt cannot be downloaded"):
        fetch("hapt")
    with pytest.raises(ValueError, match="dataset 'digits' has no files"):
        find("digits")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-10], r"expected 226 bytes for shape \(5, 6, 7\), got 216"),
        (lambda data: data + b"x", r"expected 226 bytes for shape \(5, 6, 7\), got 227"),
        (lambda data: b"\x00\x00\x08\x01" + data[4:], "begins 00 00 08 03, got 00 00 08 01"),
        (lambda data: b"", "got an empty file"),
        (lambda data: data[:9], "expected a header of 16 bytes, got 9 bytes in all"),
        (
            lambda data: gzip.compress(data)[:-20],
            r"damaged or cut short \(Compressed file ended .*\); get the file again",
        ),
        (lambda data: gzip.compress(data)[:-8] + b"12345678", "damaged or cut short"),
        (lambda data: b"\x1f\x8bnonsense and more of it", "damaged or cut short"),
        (lambda data: idx(IMAGES[:4]), "has 4 images but .*train-labels-idx1-ubyte.* has 5 labels"),
    ],
)
def test_a_damaged_idx_file_is_named_with_what_is_wrong(tmp_path, damage, message):
    write_idx(tmp_path, compress=False)
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(damage(idx(IMAGES)))
    with pytest.raises(ValueError, match=rf"train-images-idx3-ubyte.*{message}"):
        load("mnist:own", tmp_path)


def test_labels_out_of_range_are_refused(tmp_path):
    write_idx(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(LABELS + 10)))
    with pytest.raises(
        ValueError, match=r"train-labels-idx1-ubyte.gz: labels must lie in 0..9, got 13 at index 0, and 4 more"
    ):
        load("mnist:own", tmp_path)


def test_files_of_the_other_dataset_with_the_same_names_are_recognised(tmp_path, monkeypatch):
    write_idx(tmp_path)
    known = {hashlib.md5(idx(IMAGES)).hexdigest(): ("mnist", "train-images-idx3-ubyte")}
    monkeypatch.setattr(files, "RECOGNISED", known)
    assert load("mnist:own", tmp_path).n_train == 5
    with pytest.raises(ValueError, match="is train-images-idx3-ubyte of mnist, not of fashion-mnist"):
        load("fashion-mnist:own", tmp_path)


def test_check_tells_published_files_from_others(tmp_path, monkeypatch):
    write_idx(tmp_path)
    assert [file.published for file in check("mnist", tmp_path)] == [False] * 4
    (published,) = sources.SOURCES["mnist"].alternatives
    right = published | {"train-labels-idx1-ubyte": sources.Published(md5=hashlib.md5(idx(LABELS)).hexdigest())}
    monkeypatch.setitem(sources.SOURCES, "mnist", sources.Source(alternatives=(right,), home="x"))
    assert [file.published for file in check("mnist", tmp_path)] == [False, True, False, False]


@pytest.mark.parametrize("sub", ["cifar10/cifar-10-batches-bin", "cifar-10-batches-bin", "."])
def test_cifar10_rows_are_label_and_planes(tmp_path, sub):
    (tmp_path / sub).mkdir(parents=True, exist_ok=True)
    batches = [cifar_rows(4, 1, seed) for seed in range(6)]
    for name, rows in zip(CIFAR10, batches):
        (tmp_path / sub / name.split("/")[1]).write_bytes(rows.tobytes())
    data = load("cifar10:own", tmp_path)
    assert data.x_train.shape == (20, 3, 32, 32) and data.x_test.shape == (4, 3, 32, 32)
    assert data.x_train[9, 2, 3, 4] == batches[2][1, 1 + 2 * 1024 + 3 * 32 + 4]
    assert data.y_train.tolist() == [0, 1, 2, 3] * 5


def test_cifar_archives_are_read_without_unpacking(tmp_path):
    batches = {name: cifar_rows(2, 1, seed).tobytes() for seed, name in enumerate(CIFAR10)}
    write_tar(tmp_path / "cifar10" / "cifar-10-binary.tar.gz", {"cifar-10-batches-bin/readme.html": b"x"} | batches)
    data = load("cifar10:own", tmp_path)
    assert data.x_train[2:4].tobytes() == cifar_rows(2, 1, 1)[:, 1:].tobytes()
    assert [p.name for p in (tmp_path / "cifar10").iterdir()] == ["cifar-10-binary.tar.gz"]
    assert check("cifar10", tmp_path)[0].n_bytes == 2 * 3073


def test_cifar100_labels_are_the_fine_ones(tmp_path):
    rows = cifar_rows(3, 2)
    rows[:, 0], rows[:, 1] = 19, [99, 0, 50]
    members = {"cifar-100-binary/train.bin": rows.tobytes(), "cifar-100-binary/test.bin": rows[:1].tobytes()}
    write_tar(tmp_path / "cifar-100-binary.tar.gz", members)
    data = load("cifar100:own", tmp_path)
    assert data.y_train.tolist() == [99, 0, 50] and data.n_classes == 100
    assert np.array_equal(data.x_train.reshape(3, -1), rows[:, 2:])


def test_damaged_archives_and_batches_are_named(tmp_path):
    members = {"cifar-100-binary/train.bin": cifar_rows(3, 2).tobytes()}
    path = tmp_path / "cifar-100-binary.tar.gz"
    write_tar(path, members)
    with pytest.raises(ValueError, match=r"cifar-100-binary.tar.gz has no cifar-100-binary/test.bin"):
        load("cifar100:own", tmp_path)
    path.write_bytes(path.read_bytes()[:4000])
    with pytest.raises(ValueError, match=r"cifar-100-binary.tar.gz: damaged or cut short \(4000 bytes"):
        load("cifar100:own", tmp_path)
    members["cifar-100-binary/test.bin"] = cifar_rows(2, 2).tobytes()[:-1]
    write_tar(path, members)
    with pytest.raises(ValueError, match="expected whole rows of 3074 bytes, got 6147 bytes, 1 rows and 3073 bytes"):
        load("cifar100:own", tmp_path)


def test_links_in_an_archive_are_not_followed(tmp_path):
    with tarfile.open(tmp_path / "cifar-100-binary.tar.gz", "w:gz") as tar:
        for name in ("train", "test"):
            entry = tarfile.TarInfo(f"cifar-100-binary/{name}.bin")
            entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(entry)
    with pytest.raises(ValueError, match=r"has no cifar-100-binary/test.bin, cifar-100-binary/train.bin"):
        load("cifar100:own", tmp_path)


def svhn_arrays(n):
    x = np.random.default_rng(n).integers(0, 256, size=(32, 32, 3, n), dtype=np.uint8)
    return {"X": x, "y": np.array([[1 + i % 10] for i in range(n)], dtype=np.uint8)}


def write_svhn(folder):
    folder.mkdir(parents=True, exist_ok=True)
    savemat(folder / "train_32x32.mat", svhn_arrays(12), do_compression=True)
    savemat(folder / "test_32x32.mat", svhn_arrays(10))


def test_svhn_ten_means_zero_and_the_sample_comes_first(tmp_path):
    write_svhn(tmp_path / "svhn")
    data = load("svhn:own", tmp_path)
    assert data.x_train.shape == (12, 3, 32, 32)
    assert data.x_train[7, 2, 5, 6] == svhn_arrays(12)["X"][5, 6, 2, 7]
    assert data.y_test.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": svhn_arrays(3)["X"]}, r"expected arrays X, y, lacks y, has \['X'\]"),
        (svhn_arrays(3) | {"X": np.zeros((3, 32, 32), np.uint8)}, r"expected X of shape \(32, 32, 3, n\)"),
        (svhn_arrays(3) | {"y": np.zeros((2, 1), np.uint8)}, "expected 3 labels, one for each image, got 2"),
        (
            svhn_arrays(3) | {"y": np.zeros((3, 1), np.uint8)},
            r"labels y must lie in 1..10, got 0 at index \[0, 0\], and 2 more",
        ),
    ],
)
def test_other_matlab_files_are_refused(tmp_path, arrays, message):
    write_svhn(tmp_path)
    savemat(tmp_path / "test_32x32.mat", arrays)
    with pytest.raises(ValueError, match=rf"test_32x32.mat: {message}"):
        load("svhn:own", tmp_path)


@pytest.mark.parametrize("keep", [0, 100, 3000])
def test_a_matlab_file_that_is_cut_short_is_named(tmp_path, keep):
    write_svhn(tmp_path)
    path = tmp_path / "train_32x32.mat"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=rf"train_32x32.mat: cannot be read as a Matlab file of {keep:,} bytes"):
        load("svhn:own", tmp_path)


def write_windows(path, **changes):
    """Two people, two activities, seven windows of each; a window's first value is its number."""
    x = np.zeros((28, 128, 6), np.float32)
    x[:, 0, 0] = np.arange(28)
    arrays = {"X": x, "y": np.tile(np.repeat([0, 5], 7), 2).astype(np.uint8), "user": np.repeat([3, 9], 14)}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **(arrays | changes))


def test_the_last_fifth_of_each_persons_activity_is_for_testing(tmp_path):
    write_windows(tmp_path / "hapt" / "hapt_windows.npz")
    data = load("hapt", tmp_path)
    # of windows 0..6: 6 is for testing, 5 may overlap it and is left out
    assert data.x_test[:, 0, 0].tolist() == [6, 13, 20, 27]
    assert data.x_train[:, 0, 0].tolist() == [i for i in range(28) if i % 7 < 5]
    assert data.shape == (6, 128)
    assert np.bincount(data.user).tolist() == [0, 0, 0, 10, 0, 0, 0, 0, 0, 10]
    assert data.user_test.tolist() == [3, 3, 9, 9] and data.y_test.tolist() == [0, 5, 0, 5]


def test_windows_of_another_shape_or_with_objects_are_refused(tmp_path):
    path = tmp_path / "hapt_windows.npz"
    write_windows(path, user=np.zeros(3))
    with pytest.raises(ValueError, match=r"expected X \(n, 128, 6\), y \(n,\) and user \(n,\), got .* and \(3,\)"):
        load("hapt", tmp_path)
    write_windows(path, user=np.array([None] * 28))
    with pytest.raises(
        ValueError, match=r"hapt_windows.npz, array user: holds Python objects, which are never unpickled"
    ):
        load("hapt", tmp_path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"hapt_windows.npz: .* of 200 bytes"):
        load("hapt", tmp_path)


def hapt_raw():
    """One recording of 1,300 samples: walking 1..1000, a transition, lying 1101..1228 (one window)."""
    signal = np.arange(1300)[:, None] + np.array([0.0, 0.25, 0.5])
    lines = {"acc_exp01_user07.txt": signal, "gyro_exp01_user07.txt": -signal}
    texts = {name: "\n".join(" ".join(f"{v:.17e}" for v in row) for row in rows) for name, rows in lines.items()}
    texts["labels.txt"] = "1 7 1 1 1000\n1 7 11 1001 1100\n1 7 6 1101 1228\n"
    return {f"RawData/{name}": text.encode() for name, text in texts.items()}


@pytest.mark.parametrize("where", ["RawData", "hapt/RawData", ".", "archive"])
def test_raw_recordings_are_cut_into_windows(tmp_path, where):
    for name, data in hapt_raw().items():
        if where == "archive":
            with zipfile.ZipFile(tmp_path / "HAPT Data Set.zip", "a") as archive:
                archive.writestr(f"HAPT Data Set/{name}", data)
        else:
            (tmp_path / where).mkdir(parents=True, exist_ok=True)
            (tmp_path / where / name.split("/")[1]).write_bytes(data)
    data = load("hapt", tmp_path)
    # walking: 14 windows, at 0, 64, ..., 832 (896 + 128 > 1000), 2 for testing, 1 between; lying: one window
    assert data.x_test[:, 0, 0].tolist() == [12 * 64, 13 * 64]
    assert data.x_train[:, 0, 0].tolist() == [64 * i for i in range(11)] + [1100]
    assert data.x_train[0, :, 1].tolist() == [1, 1.25, 1.5, -1, -1.25, -1.5]
    assert data.y_train.tolist() == [0] * 11 + [5] and set(data.user) == {7}


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("labels.txt", b"", r"labels.txt: expected rows of 5 numbers, got an empty file"),
        ("labels.txt", b"1 7 1 1\n", r"labels.txt: expected rows of 5 numbers, got rows of 4"),
        ("labels.txt", b"1 7 1 1 1301\n", r"samples 1..1300, but a segment runs from 1 to 1301"),
        ("labels.txt", b"1 7 1 1 100\n", r"no labelled segment .* as long as a window of 128 samples"),
        ("acc_exp01_user07.txt", b"1 2 3\n4 5\n", r"acc_exp01_user07.txt: expected rows of 3 numbers"),
        ("acc_exp01_user07.txt", b"1 2 3\n", r"experiment 1 has 1 accelerations but 1300 angular speeds"),
    ],
)
def test_damaged_recordings_are_named(tmp_path, name, data, message):
    for file, good in hapt_raw().items():
        (tmp_path / file.split("/")[1]).write_bytes(good)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=message):
        load("hapt", tmp_path)


def test_a_missing_recording_is_named(tmp_path):
    for file, good in hapt_raw().items():
        (tmp_path / file.split("/")[1]).write_bytes(good)
    (tmp_path / "gyro_exp01_user07.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"gyro_exp01_user07.txt is missing, though other files"):
        load("hapt", tmp_path)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A web server on this machine in place of Fashion-MNIST's home; yields the folder it serves."""
    folder = tmp_path / "home"
    write_idx(folder)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    source = sources.SOURCES["fashion-mnist"]
    downloads = tuple(
        sources.Download(
            url=f"http://127.0.0.1:{server.server_port}/{file}.gz",
            md5=hashlib.md5((folder / f"{file}.gz").read_bytes()).hexdigest(),
        )
        for file in source.alternatives[0]
    )
    changed = sources.Source(alternatives=source.alternatives, downloads=downloads, home=source.home)
    monkeypatch.setitem(sources.SOURCES, "fashion-mnist", changed)
    yield folder
    server.shutdown()
    server.server_close()
    thread.join()


def test_fetched_files_are_found_afterwards(home, tmp_path):
    assert fetch("fashion-mnist") == tmp_path / "cache" / "fashion-mnist"
    assert np.array_equal(load("fashion-mnist:own").x_train[:, 0], IMAGES)
    for path in home.iterdir():
        path.unlink()
    fetch("fashion-mnist")  # nothing to download any more


def test_a_download_that_is_not_the_published_file_is_refused_and_not_kept(home, tmp_path):
    (home / "t10k-labels-idx1-ubyte.gz").write_bytes(b"<html>sign in to the network</html>")
    with pytest.raises(ValueError, match=r"t10k-labels-idx1-ubyte.gz is not the published file \(expected md5 "):
        fetch("fashion-mnist")
    assert not (tmp_path / "cache" / "fashion-mnist" / "t10k-labels-idx1-ubyte.gz").exists()


def test_a_failed_download_names_address_and_ways_out(home, tmp_path):
    (home / "train-images-idx3-ubyte.gz").unlink()
    with pytest.raises(OSError, match=r"could not download http://127.0.0.1.*--from DIR"):
        fetch("fashion-mnist", tmp_path / "elsewhere")


@pytest.mark.parametrize("compress", [True, False])
def test_a_changed_pixel_of_a_published_file_is_found_before_it_is_parsed(tmp_path, monkeypatch, compress):
    write_idx(tmp_path, compress=compress)
    known = {f.name.removesuffix(".gz"): f for f in tmp_path.iterdir()}
    right = {
        name: sources.Published(md5=hashlib.md5(data).hexdigest(), n_bytes=len(data))
        for name, path in known.items()
        for data in [gzip.decompress(path.read_bytes()) if compress else path.read_bytes()]
    }
    monkeypatch.setitem(sources.SOURCES, "mnist", sources.Source(alternatives=(right,), home="x"))
    assert load("mnist", tmp_path).n_train == 5  # the published files
    changed = IMAGES.copy()
    changed[2, 3, 4] ^= 1
    write_idx(tmp_path, compress=compress, images=changed)
    monkeypatch.setattr(files.formats, "idx", None)  # nothing may be parsed
    with pytest.raises(
        ValueError, match=r"is not the published file of mnist \(expected md5 .*, got .*--set task.dataset=mnist:own"
    ):
        load("mnist", tmp_path)
    monkeypatch.undo()
    assert load("mnist:own", tmp_path).x_train[2, 0, 3, 4] == changed[2, 3, 4]


def test_only_datasets_with_files_can_be_ones_own():
    with pytest.raises(ValueError, match="dataset digits has no files that could be your own; leave out :own"):
        load("digits:own")
    with pytest.raises(ValueError, match="unknown dataset 'mnistt:own'; nearest: mnist"):
        load("mnistt:own")


def test_an_archive_with_a_known_hash_is_compared_before_it_is_opened(tmp_path):
    members = {f"cifar-100-binary/{name}.bin": cifar_rows(2, 2).tobytes() for name in ("train", "test")}
    write_tar(tmp_path / "cifar-100-binary.tar.gz", members)
    with pytest.raises(ValueError, match=r"is not the published file of cifar100 \(expected md5 03b5dce0"):
        load("cifar100", tmp_path)
    assert load("cifar100:own", tmp_path).n_train == 2


def test_a_size_that_is_not_the_published_one_is_refused(tmp_path):
    for name in ("train", "test"):
        (tmp_path / f"{name}.bin").write_bytes(cifar_rows(2, 2).tobytes())
    with pytest.raises(
        ValueError, match=r"train.bin is not the published file .*expected 153,700,000 bytes, got 6,148"
    ):
        load("cifar100", tmp_path)


@pytest.mark.parametrize("at", [(145, 8), (184, 0), (185, 255)])
def test_a_matlab_file_that_crashes_its_reader_is_one_line(tmp_path, at):
    write_svhn(tmp_path)
    savemat(tmp_path / "train_32x32.mat", {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.ones((2, 1), np.uint8)})
    data = bytearray((tmp_path / "train_32x32.mat").read_bytes())
    data[at[0]] = at[1]
    (tmp_path / "train_32x32.mat").write_bytes(data)
    with pytest.raises(ValueError, match=r"train_32x32.mat: cannot be read as a Matlab file of .* bytes") as caught:
        load("svhn:own", tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["mnist", "mnist:own"])
def test_a_gzip_bomb_is_not_unpacked(tmp_path, name):
    write_idx(tmp_path)
    bomb = idx(IMAGES) + bytes(100_000_000)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(bomb, 9))
    tracemalloc.start()
    try:
        most = "47,040,016" if name == "mnist" else "226"
        with pytest.raises(ValueError, match=f"unpacks to more than {most} bytes"):
            load(name, tmp_path)
        assert tracemalloc.get_traced_memory()[1] < (110_000_000 if name == "mnist" else 5_000_000)
    finally:
        tracemalloc.stop()


def test_an_archive_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "Bounded", lambda stream, where: Bounded(stream, where, 1_000_000))
    write_tar(tmp_path / "cifar-100-binary.tar.gz", {"junk": bytes(3_000_000), "cifar-100-binary/train.bin": b"x"})
    with pytest.raises(ValueError, match="unpacks to more than 1,000,000 bytes"):
        load("cifar100:own", tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.repeat(0.5, 28)}, "y must hold whole numbers, got float64"),
        ({"y": np.repeat(6, 28)}, r"y must lie in 0\.\.5, got 6 at index 0, and 27 more"),
        ({"y": np.repeat("1", 28)}, "y must hold whole numbers, got <U1"),
        ({"user": np.repeat(-1, 28)}, r"user must lie in 0\.\.1e\+09, got -1"),
        ({"X": np.full((28, 128, 6), "1.0")}, "X must hold real numbers"),
        ({"X": np.full((28, 128, 6), np.nan)}, r"X must be finite, got nan at index \[0, 0, 0\]"),
        ({"X": np.full((28, 128, 6), 1e300)}, r"X must lie in .*, got 1e\+300"),
        ({"X": np.full((28, 128, 6), 1j)}, "X must hold real numbers, got complex128"),
    ],
)
def test_windows_of_other_values_are_refused_with_the_first_of_them(tmp_path, changes, message):
    write_windows(tmp_path / "hapt_windows.npz", **changes)
    with pytest.raises(ValueError, match=rf"hapt_windows.npz: {message}"):
        load("hapt", tmp_path)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (b"1 7 1 1 nan\n", "columns must lie in"),
        (b"1 7 1.5 1 100\n", "expected whole numbers, but row 1 has others"),
        (b"1 7 1 1 1e300\n", "columns must lie in"),
        (b"1 7 13 1 100\n", r"activities, the third column, must lie in 1\.\.12, got 13"),
        (b"1 7 0 1 200\n", r"activities, the third column, must lie in 1\.\.12, got 0"),
        (b"".join(b"%d 7 1 1 9\n" % i for i in range(1001)), "1,001 recordings; at most 1,000 are read"),
    ],
)
def test_labels_of_recordings_that_are_none_are_refused(tmp_path, labels, message):
    for file, good in hapt_raw().items():
        (tmp_path / file.split("/")[1]).write_bytes(good)
    (tmp_path / "labels.txt").write_bytes(labels)
    with pytest.raises(
        ValueError, match=message.replace("columns must lie in", "(the table must be finite|columns must lie in)")
    ):
        load("hapt", tmp_path)
