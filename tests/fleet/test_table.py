"""Fleets as tables: what is read, and what is said of tables that are wrong."""

import os

import numpy as np
import polars as pl
import pytest

from fedloom.fleet.gradients import read_gradients
from fedloom.fleet.table import EARTH_M, FleetTable, read_fleet
from fedloom.gate import parquet
from fedloom.gate.child import Child


@pytest.fixture
def table(tmp_path):
    def write(*lines):
        file = tmp_path / "fleet.csv"
        file.write_text("\n".join(lines) + "\n")
        return file

    return write


def test_positions_are_enough(table):
    fleet = read_fleet(table("x_m,y_m", "0,0", "3,4"))
    assert fleet.ids == ("0", "1") and fleet.position_m.tolist() == [[0, 0], [3, 4]] and fleet.n_devices == 2
    assert fleet.origin is None and fleet.ignored == ()
    for column in (
        "steps_per_s",
        "samples_per_s",
        "power_w",
        "capacity",
        "candidate",
        "indoor",
        "n_samples",
        "label_counts",
    ):
        assert getattr(fleet, column) is None
    assert fleet.to_metres((1.5, -2)).tolist() == [1.5, -2]


def test_every_column_and_other_spellings(table):
    fleet = read_fleet(
        table(
            "Name,X,y_m,steps_per_s,tx_power_dbm,capacity,candidate,label_cat,label_dog,floor",
            "a,0,0,2.5,10,20,yes,3,4,1",
            "",
            "b,1,2,5,20,1,No,0,9,2",
        )
    )
    assert fleet.ids == ("a", "b") and fleet.labels == ("cat", "dog") and fleet.ignored == ("floor",)
    assert fleet.steps_per_s.tolist() == [2.5, 5] and fleet.capacity.tolist() == [20, 1]
    np.testing.assert_allclose(fleet.power_w, [0.01, 0.1])
    assert fleet.candidate.tolist() == [True, False]
    assert fleet.label_counts.tolist() == [[3, 4], [0, 9]] and fleet.n_samples.tolist() == [7, 9]


def test_degrees_become_metres_around_the_middle(table):
    fleet = read_fleet(table("lat,lon", "60.0,10.0", "60.02,10.04"))
    assert fleet.origin == pytest.approx((60.01, 10.02))
    north = EARTH_M * np.deg2rad(0.01)
    east = EARTH_M * np.deg2rad(0.02) * np.cos(np.deg2rad(60.01))
    np.testing.assert_allclose(fleet.position_m, [[-east, -north], [east, north]])
    np.testing.assert_allclose(fleet.to_metres((60.0, 10.0)), [-east, -north])
    with pytest.raises(ValueError, match=r"latitude must be in -90..90, got 500"):
        fleet.to_metres((500, 0))


def test_degrees_come_out_as_they_came_in(table):
    places = [(48.137154, 11.576124), (48.2, 11.7), (-33.8688197, 151.2092955), (0.0, -179.9999999)]
    fleet = read_fleet(table("lat,lon", *(f"{lat},{lon}" for lat, lon in places)))
    assert [fleet.to_degrees(point) for point in fleet.position_m] == places
    assert fleet.to_degrees(fleet.to_metres((48.15, 11.6))) == (48.15, 11.6)
    assert read_fleet(table("x_m,y_m", "0,0")).to_degrees(np.zeros(2)) is None


def test_distances_agree_with_the_great_circle(table):
    a, b = np.deg2rad([48.1, 11.5]), np.deg2rad([48.2, 11.7])
    half = np.sin((b - a) / 2) ** 2
    circle = 2 * EARTH_M * np.arcsin(np.sqrt(half[0] + np.cos(a[0]) * np.cos(b[0]) * half[1]))
    position = read_fleet(table("latitude,longitude", "48.1,11.5", "48.2,11.7")).position_m
    assert np.hypot(*(position[1] - position[0])) == pytest.approx(circle, rel=1e-4)


def test_a_fleet_across_the_date_line_is_not_torn_apart(table):
    position = read_fleet(table("latitude,longitude", "0,179.99", "0,-179.99")).position_m
    assert np.hypot(*(position[1] - position[0])) == pytest.approx(EARTH_M * np.deg2rad(0.02))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([""], "is empty or has no line of column names"),
        (["x_m,y_m"], "expected one line per device after the line of column names, got none"),
        (["xm,y_m", "0,0"], "expected the columns x_m and y_m .* got xm, y_m; did you mean to rename xm for x_m"),
        (["latitud,longitude", "0,0"], "rename latitud for latitude"),
        (["x_m;y_m", "0;0"], "line 1: columns must be separated by commas"),
        (["x_m,y_m,x_m", "0,0,0"], "line 1: every column must be there once, got x_m more than once"),
        (["x_m,y_m", "0,0", "1"], "line 3: expected 2 columns, as in the first line, got 1"),
        (["x_m,y_m", "0,0", "1,nan"], r"line 3, column y_m: expected a number in -1e\+09..1e\+09, got 'nan'"),
        (["x_m,y_m", "0,far"], r"line 2, column y_m: expected a number in -1e\+09..1e\+09, got 'far'"),
        (["latitude,longitude", "91,0"], r"line 2, column latitude: expected a number in -90..90, got '91'"),
        (["x_m,y_m,tx_power_w", "0,0,-1"], "line 2, column tx_power_w: expected a number above 0, got '-1'"),
        (["x_m,y_m,tx_power_dbm", "0,0,90"], r"column tx_power_dbm: expected a number in -60..60, got '90'"),
        (["x_m,y_m,steps_per_s", "0,0,0"], "column steps_per_s: expected a number above 0, got '0'"),
        (["x_m,y_m,capacity", "0,0,2.5"], "column capacity: expected a whole number of at least 1, got '2.5'"),
        (["x_m,y_m,label_0", "0,0,-3"], "column label_0: expected a whole number of at least 0, got '-3'"),
        (["x_m,y_m,candidate", "0,0,maybe"], "line 2, column candidate: expected yes or no"),
        (["x_m,y_m,candidate", "0,0,no"], "no device is a candidate"),
        (["x_m,y_m,indoor", "0,0,"], "line 2, column indoor: expected yes or no"),
        (["id,x_m,y_m", "a,0,0", "b,0,0", "a,1,1"], "line 4: id 'a' was given to a device in line 2 already"),
        (["id,x_m,y_m", ",0,0"], "line 2: the device has no id"),
        (["x_m,y_m,steps_per_s,samples_per_s", "0,0,1,1"], "got both steps_per_s and samples_per_s"),
        (
            ["x_m,y_m,battery_j", "0,0,none"],
            "line 2, column battery_j: expected a number above 0, or mains, got 'none'",
        ),
        (["x_m,y_m,battery_j,battery_wh", "0,0,1,1"], "got both battery_j and battery_wh"),
        (["x_m,y_m,up_bit_s", "0,0,1e300"], r"column up_bit_s: expected a number in 1e-09..1e\+18, got '1e300'"),
        (["x_m,y_m,n_samples,label_0", "0,0,9,8"], "line 2: n_samples is 9, but the samples of all classes are 8"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(table, lines, message):
    with pytest.raises(ValueError, match=message):
        read_fleet(table(*lines))


def test_files_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nowhere.csv; give the path of the fleet"):
        read_fleet(tmp_path / "nowhere.csv")
    with pytest.raises(ValueError, match="is a directory; give the path of a fleet"):
        read_fleet(tmp_path)
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ValueError, match="line 1: not a text file: byte 0xff is no UTF-8"):
        read_fleet(binary)


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "named.csv"])
def test_gradients_from_any_file(tmp_path, kind):
    rows = np.array([[1.0, 2.0], [3.0, -4.5]])
    file = tmp_path / f"gradients.{kind}"
    if kind == "npy":
        np.save(file, rows)
    elif kind == "npz":
        np.savez(file, gradients=rows, other=np.zeros(3))
    else:
        file.write_text(("w,b\n" if kind == "named.csv" else "") + "1,2\n3,-4.5\n")
    assert read_gradients(file, 2).tolist() == rows.tolist()
    with pytest.raises(ValueError, match="a row for each of the 3 devices of the fleet, got 2 rows"):
        read_gradients(file, 3)


def test_gradients_that_are_none(tmp_path):
    np.save(tmp_path / "flat.npy", np.zeros(4))
    np.save(tmp_path / "lost.npy", np.array([[1.0], [np.nan]]))
    np.savez(tmp_path / "many.npz", a=np.zeros((2, 1)), b=np.zeros((2, 1)))
    (tmp_path / "words.csv").write_text("1,2\na,b\n")
    (tmp_path / "ragged.csv").write_text("1,2\n3\n")
    (tmp_path / "gradients.txt").write_text("1")
    (tmp_path / "junk.npy").write_text("junk")
    for name, message in {
        "flat.npy": r"expected numbers with a row per device, \(K, p\), got float64 of shape \(4,\)",
        "lost.npy": r"gradients must be finite, got nan at index \[1, 0\]",
        "many.npz": "expected one array or one called gradients",
        "words.csv": "line 2: expected numbers only",
        "ragged.csv": "line 2: expected 2 numbers as before, got 1",
        "gradients.txt": "must be an .npy, .npz or .csv file",
        "junk.npy": "no header of an array",
    }.items():
        with pytest.raises(ValueError, match=message):
            read_gradients(tmp_path / name, 2)


@pytest.mark.parametrize("text", ["1_000", "0x10", "１", "1e400"])
def test_numbers_that_only_python_reads_are_refused(tmp_path, text):
    (tmp_path / "fleet.csv").write_text(f"x_m,y_m\n0,{text}\n")
    with pytest.raises(ValueError, match=r"line 2, column y_m: expected a number in -1e\+09..1e\+09, got"):
        read_fleet(tmp_path / "fleet.csv")


def test_messages_show_one_line_of_a_large_table(tmp_path):
    for text in (
        f"{'a' * 100_000},b\n1,2\n",
        f"x_m,y_m\n0,{'9' * 100_000}\n",
        ",".join(f"c{i}" for i in range(4000)) + "\n1\n",
    ):
        (tmp_path / "fleet.csv").write_text(text)
        with pytest.raises(ValueError) as caught:
            read_fleet(tmp_path / "fleet.csv")
        assert len(str(caught.value)) < 700 and "\n" not in str(caught.value)


def test_a_table_of_many_columns_is_refused_at_once(tmp_path):
    (tmp_path / "fleet.csv").write_text(",".join(f"c{i}" for i in range(100_000)))
    with pytest.raises(ValueError, match="100,000 columns; at most 4,096 are read"):
        read_fleet(tmp_path / "fleet.csv")


@pytest.mark.parametrize("read", [read_fleet, lambda path: read_gradients(path, 3)])
def test_a_device_or_a_pipe_is_refused_at_once(tmp_path, read):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    for name, kind in (("pipe.csv", "a pipe"), ("zero.csv", "a device")):
        with pytest.raises(ValueError, match=f"{name} is {kind}; give the path of"):
            read(tmp_path / name)


def test_gradients_that_declare_more_than_they_hold_cost_nothing(tmp_path):
    np.save(tmp_path / "large.npy", np.ones((2, 4)))
    data = (tmp_path / "large.npy").read_bytes()
    (tmp_path / "large.npy").write_bytes(data.replace(b"(2, 4), }           ", b"(2, 4000000000000),}"))
    with pytest.raises(ValueError, match=r"expected 64,000,000,000,000 bytes for \(2, 4000000000000\) float64, got 64"):
        read_gradients(tmp_path / "large.npy", 2)


def as_parquet(tmp_path, **columns):
    pl.DataFrame(columns, strict=False).write_parquet(tmp_path / "fleet.parquet")
    return tmp_path / "fleet.parquet"


def test_a_parquet_file_is_read_as_the_same_table(tmp_path, table):
    lines = "id,lat,lon,tx_power_w,battery_wh,up_bit_s,capacity,candidate,label_a", "a,48.1,11.5,0.1,2,1e6,3,yes,4"
    csv = read_fleet(table(*lines, "b,48.2,11.6,0.25,mains,2.5e6,1,no,0"))
    columns = {"lat": [48.1, 48.2], "lon": [11.5, 11.6], "tx_power_w": [0.1, 0.25], "battery_wh": ["2", "mains"]}
    columns |= {"up_bit_s": [1e6, 2.5e6], "capacity": [3, 1], "candidate": [True, False], "label_a": [4, 0]}
    other = read_fleet(as_parquet(tmp_path, id=["a", "b"], **columns))
    for name in FleetTable.__dataclass_fields__:
        one, two = getattr(csv, name), getattr(other, name)
        assert np.array_equal(one, two) if isinstance(one, np.ndarray) else one == two, name
    assert csv.battery_j.tolist() == [7200, np.inf] and csv.up_bit_s.tolist() == [1e6, 2.5e6]


def test_parquet_files_that_are_wrong_are_refused_with_the_same_words(tmp_path):
    with Child(parquet.__name__) as child:  # one reader for all of them
        refused_with_the_same_words(tmp_path, child)


def refused_with_the_same_words(tmp_path, child):
    for columns, message in (
        ({"x_m": [0.0, None], "y_m": [0.0, 1.0]}, "row 2, column x_m: expected a number in .*, got ''"),
        ({"x_m": [0.0], "y_m": ["far"]}, "row 1, column y_m: expected a number in .*, got 'far'"),
        ({"x": [0.0], "x_m": [1.0], "y_m": [0.0]}, "its columns: every column must be there once, got x_m"),
        ({"x_m": [[0.0]], "y_m": [0.0]}, r"column x_m: expected numbers, text, or true and false, got List"),
        ({"x_m": [], "y_m": []}, "expected one row per device, got none"),
        ({"a": [1]}, "its columns: expected the columns x_m and y_m"),
    ):
        with pytest.raises(ValueError, match=message):
            read_fleet(as_parquet(tmp_path, **columns), child)
    (tmp_path / "junk.parquet").write_bytes(b"PAR1 this is none PAR1")
    with pytest.raises(ValueError, match=r"junk.parquet: cannot be read as Parquet of 22 bytes"):
        read_fleet(tmp_path / "junk.parquet", child)
