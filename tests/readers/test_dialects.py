"""Tables as devices and programs write them: each is read rightly, or refused with a reason."""

import datetime as dt
import json

import numpy as np
import pytest

from tensorcontrast.errors import TensorContrastError
from tensorcontrast.recordings import Recordings

pytest.importorskip("pyarrow", reason="needs tensorcontrast[data]")

N = 200
RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(N, 3)), 4)
T0 = 1_544_027_337  # 2018-12-05 16:28:57 UTC
T = np.arange(N)


def rows(*columns, sep=",", decimal=".", end=""):
    """Lines of a table; numbers as Python writes them."""
    texts = [[str(v) for v in np.asarray(c).tolist()] for c in columns]
    lines = [sep.join(cells) + end for cells in zip(*texts, strict=True)]
    out = "\n".join(lines) + "\n"
    return out.replace(".", decimal)


def stamps(fs, form="%Y-%m-%d %H:%M:%S.%f", start=T0):
    begin = dt.datetime.fromtimestamp(start, dt.UTC)
    return [(begin + dt.timedelta(seconds=k / fs)).strftime(form) for k in range(N)]


def table(header, *columns, **more):
    return header + "\n" + rows(*(columns or (T / 50, *X.T)), **more)


def opensignals(**about):
    header = {"sampling rate": 1000, "column": ["nSeq", "I1", "A1", "A2"], "label": ["A1", "A2"]}
    header |= {"date": "2017-1-18", "time": "13:13:49.5"} | about
    head = "# OpenSignals Text File Format. Version 1\n# " + json.dumps({"00:07": header})
    return head + "\n# EndOfHeader\n" + rows(T % 16, T * 0, *X.T[:2], sep="\t", end="\t")


ACTIGRAPH = (
    "------------ Data File Created By ActiGraph GT3X+ ActiLife v6.13.3 Firmware v2.5.0 "
    "date format M/d/yyyy{rate} Filter Normal -----------\n"
    "Serial Number: NEO1\nStart Time 14:00:00\nStart Date 9/19/2012\n"
    "Epoch Period (hh:mm:ss) {epoch}\nDownload Time 09:50:23\nDownload Date 9/20/2012\n"
    "Current Memory Address: 0\nCurrent Battery Voltage: 4.22     Mode = 12\n"
    "--------------------------------------------------\n"
)
LABCHART = (
    "Interval=\t0.001 s\nExcelDateTime=\t4.1e+004\t9/19/2012 14:00:00\nTimeFormat=\tStartOfBlock\n"
    "DateFormat=\tM/d/yyyy\nChannelTitle=\tECG\tResp\nRange=\t10.000 mV\t2.000 V\n"
)
SHIMMER = "Shimmer_40AC_Timestamp_Unix_CAL\tShimmer_40AC_X_CAL\tShimmer_40AC_Y_CAL"
MIND = "TimeStamp,Delta_TP9,RAW_TP9,RAW_AF7,RAW_AF8,RAW_TP10,Accelerometer_X,HeadBandOn,Elements"
GENEACTIV = (
    "Device Type,GENEActiv\nDevice Model,1.1\n\nConfiguration Info\n"
    "Measurement Frequency,100 Hz\nStart Time,2012-05-23 16:47:50:000\n\n"
)
OPENBCI = "%OpenBCI Raw EEG Data\n%Number of channels = 2\n%Sample Rate = 250 Hz\n"
OPENBCI_HEAD = "Sample Index, EXG Channel 0, EXG Channel 1, Accel Channel 0, Timestamp"
E4 = f"{T0}.000000, {T0}.000000, {T0}.000000\n32.000000, 32.000000, 32.000000\n"
ISO = "2014-05-07T13:29:50"

XYZ = ("x", "y", "z")
#: Name of the file, its text, options, and what must come out: rate, channels, and more.
READ = {
    "seconds": ("a.csv", table("time,x,y,z"), {}, (50, XYZ)),
    "unit in the header": ("a.csv", table("Time (s),x,y,z"), {}, (50, XYZ)),
    "capitals": ("a.csv", table("TimeStamp,x,y,z"), {}, (50, XYZ)),
    "t": ("a.csv", table("t,x,y,z"), {}, (50, XYZ)),
    "seconds elapsed": ("a.csv", table("seconds_elapsed,x,y,z"), {}, (50, XYZ)),
    "ms in the header": ("a.csv", table("time_ms,x,y,z", T * 20, *X.T), {}, (50, XYZ)),
    "ms in brackets": ("a.csv", table("Time [ms],x,y,z", T * 20, *X.T), {}, (50, XYZ)),
    "ms by option": (
        "a.csv",
        table("clock,x,y,z", T * 20, *X.T),
        {"time": "clock", "units": {"clock": "ms"}},
        (50, XYZ),
    ),
    "seconds since 1970": ("a.csv", table("timestamp,x,y,z", T0 + T / 50, *X.T), {}, (50, XYZ)),
    "ms since 1970": ("a.csv", table("ts,x,y,z", T0 * 1000 + T * 20, *X.T), {}, (50, XYZ)),
    "µs since 1970": (
        "a.csv",
        table("timestamps,x,y,z", T0 * 10**6 + T * 20000, *X.T),
        {},
        (50, XYZ),
    ),
    "ns since 1970": (
        "a.csv",
        table("time,x,y,z", T0 * 10**9 + T * 20 * 10**6, *X.T),
        {},
        (50, XYZ),
    ),
    "dates": ("a.csv", table("datetime,x,y,z", stamps(50), *X.T), {}, (50, XYZ)),
    "dates with a zone": (
        "a.csv",
        table("time,x,y,z", [s + "+0100 [Europe/London]" for s in stamps(50)], *X.T),
        {},
        (50, XYZ),
    ),
    "dates with Z": (
        "a.csv",
        table("time,x,y,z", stamps(50, "%Y-%m-%dT%H:%M:%S.%fZ"), *X.T),
        {},
        (50, XYZ),
    ),
    "dates as in Europe": (
        "a.csv",
        table("time;x;y;z", stamps(50, "%d.%m.%Y %H:%M:%S.%f"), *X.T, sep=";"),
        {},
        (50, XYZ),
    ),
    "dates as in America": (
        "a.csv",
        table("time,x,y,z", stamps(50, "%m/%d/%Y %I:%M:%S.%f %p"), *X.T),
        {},
        (50, XYZ),
    ),
    "times of the day": (
        "a.csv",
        table("time,x,y,z", stamps(50, "%H:%M:%S:%f"), *X.T),
        {},
        (50, XYZ),
    ),
    "past midnight": (
        "a.csv",
        table("time,x,y,z", stamps(50, "%H:%M:%S.%f", T0 + 27061), *X.T),
        {},
        (50, XYZ),
    ),
    "whole seconds of 20 rows": ("a.csv", table("time,x,y,z", T // 20, *X.T), {}, (20, XYZ)),
    "stamps rounded to ms": (
        "a.csv",
        table("time,x,y,z", np.round(T / 512, 3), *X.T),
        {"window_s": 0.1},
        (512, XYZ),
    ),
    "semicolons, decimal commas": (
        "a.csv",
        table("time;x;y;z", T / 50, *X.T, sep=";", decimal=","),
        {},
        (50, XYZ),
    ),
    "tabs, decimal commas": (
        "a.txt",
        table("time\tx\ty\tz", T / 50, *X.T, sep="\t", decimal=","),
        {},
        (50, XYZ),
    ),
    "blanks": ("a.txt", table("time x y z", T / 50, *X.T, sep="   "), {}, (50, XYZ)),
    "tabs in a .csv": ("a.csv", table("time\tx\ty\tz", T / 50, *X.T, sep="\t"), {}, (50, XYZ)),
    "commas in a .tsv": ("a.tsv", table("time,x,y,z"), {}, (50, XYZ)),
    "byte order mark": ("a.csv", "\ufeff" + table("time,x,y,z"), {}, (50, XYZ)),
    "UTF-16": ("a.csv", table("time,x,y,z").encode("utf-16"), {}, (50, XYZ)),
    "quotes": ("a.csv", table('"Time (s)","x","y","z"'), {}, (50, XYZ)),
    "CRLF": ("a.csv", table("time,x,y,z").replace("\n", "\r\n"), {}, (50, XYZ)),
    "separators at the ends": ("a.csv", table("time,x,y,z,", T / 50, *X.T, end=","), {}, (50, XYZ)),
    "separators at the ends of rows": (
        "a.csv",
        table("time,x,y,z", T / 50, *X.T, end=","),
        {},
        (50, XYZ),
    ),
    "blank lines": ("a.csv", "\n\n" + table("time,x,y,z").replace("\n", "\n\n"), {}, (50, XYZ)),
    "comments": ("a.csv", "# from a device\n% and more\n" + table("time,x,y,z"), {}, (50, XYZ)),
    "names in a comment": ("a.csv", "# device 7\n" + table("# time, x, y, z"), {}, (50, XYZ)),
    "sep=;": ("a.csv", "sep=;\n" + table("time;x;y;z", T / 50, *X.T, sep=";"), {}, (50, XYZ)),
    "a block before the table": (
        "a.csv",
        "Device,Watch\nSample rate,50 Hz\nNotes\n\n" + table("time,x,y,z"),
        {},
        (50, XYZ),
    ),
    "a block as wide as the table": (
        "a.csv",
        "Rate,50\nDuration,4\n" + table("time,x", T / 50, X[:, 0]),
        {},
        (50, ("x",)),
    ),
    "a row of units": (
        "a.csv",
        "time,x,y,z\ns,g,g,g\n" + rows(T / 50, *X.T),
        {},
        (50, XYZ, {"units": "g"}),
    ),
    "units in the header": (
        "a.csv",
        table("Time (s),x (m/s^2),y (m/s^2),z (m/s^2)"),
        {},
        (50, ("x (m/s^2)", "y (m/s^2)", "z (m/s^2)"), {"units": "m/s²"}),
    ),
    "Latin-1 in the header": (
        "a.csv",
        table("time,x (m/s²),y (m/s²),z (m/s²)").encode("latin-1"),
        {},
        (50, ("x (m/s²)", "y (m/s²)", "z (m/s²)"), {"units": "m/s²"}),
    ),
    "names that repeat": ("a.csv", table("time,x,x,x"), {}, (50, ("x", "x 2", "x 3"))),
    "an index of pandas": ("a.csv", table(",time,x,y,z", T, T / 50, *X.T), {}, (50, XYZ)),
    "row numbers of R": ("a.csv", table('"time","x","y","z"', T + 1, T / 50, *X.T), {}, (50, XYZ)),
    "two columns of time": (
        "a.csv",
        table("time,seconds_elapsed,x,y", T0 * 10**9 + T * 2 * 10**7, T / 50, *X.T[:2]),
        {},
        (50, ("x", "y")),
    ),
    "a packet counter": (
        "a.csv",
        table("time,packet,x,y", T / 50, T + 17, *X.T[:2]),
        {},
        (50, ("x", "y")),
    ),
    "a column that only goes up": (
        "a.csv",
        table("time,x,odometer", T / 50, X[:, 0], T**1.5),
        {},
        (50, ("x",)),
    ),
    "constant text": (
        "a.csv",
        table("time,device,x,y", T / 50, ["w1"] * N, *X.T[:2]),
        {},
        (50, ("x", "y")),
    ),
    "no header, a rate": (
        "a.csv",
        rows(*X.T),
        {"fs": 50},
        (50, ("column 1", "column 2", "column 3")),
    ),
    "no header, dates": (
        "a.csv",
        rows(stamps(50), *X.T),
        {},
        (50, ("column 2", "column 3", "column 4")),
    ),
    "no header, seconds": (
        "a.csv",
        rows(T / 50, *X.T),
        {},
        (50, ("column 2", "column 3", "column 4")),
    ),
    "one column": ("a.csv", rows(X[:, 0]), {"fs": 50}, (50, ("column 1",))),
    "labels as text": (
        "a.csv",
        table(
            "time,x,activity",
            T / 50,
            X[:, 0],
            ["rest", "walk"] * 0 + ["rest"] * 100 + ["walk"] * 100,
        ),
        {},
        (50, ("x",), {"classes": ("rest", "walk")}),
    ),
    "labels as numbers": (
        "a.csv",
        table("time,x,label", T / 50, X[:, 0], T // 100),
        {},
        (50, ("x",), {"n_classes": 2}),
    ),
    "large integers keep their signal": (
        "a.csv",
        table("time,x", T / 50, 10**9 + T % 7),
        {},
        (50, ("x",), {"exact": 10**9 + T % 7}),
    ),
    "rename": ("a.csv", table("time,a,b,c"), {"rename": {"a": "x"}}, (50, ("x", "b", "c"))),
    "ignore": ("a.csv", table("time,x,y,aux1"), {"ignore": ["aux*"]}, (50, ("x", "y"))),
    "channels by pattern": (
        "a.csv",
        table("time,acc_x,acc_y,gyro"),
        {"channels": ["acc*"]},
        (50, ("acc_x", "acc_y")),
    ),
    "skipped lines": (
        "a.csv",
        "a,b,c,d\n1,2,3,4\n" + table("time,x,y,z"),
        {"skip_lines": 2},
        (50, XYZ),
    ),
    "Empatica ACC": ("ACC.csv", E4 + rows(*(T % 9 - 4,) * 3), {}, (32, XYZ, {"units": "1/64 g"})),
    "Empatica BVP": (
        "BVP.csv",
        f"{T0}.0\n64.0\n" + rows(X[:, 0]),
        {},
        (64, ("BVP",), {"start": T0}),
    ),
    "Empatica HR": (
        "HR.csv",
        f"{T0}.0\n1.0\n" + rows(60 + X[:, 0]),
        {"window_s": 50},
        (1, ("HR",)),
    ),
    "Sensor Logger": (
        "Accelerometer.csv",
        table("time,seconds_elapsed,z,y,x", T0 * 10**9 + T * 10**7, T / 100, *X.T),
        {},
        (100, ("z", "y", "x"), {"start": T0}),
    ),
    "phyphox": (
        "Raw Data.csv",
        table('"Time (s)","Acceleration x (m/s^2)","Acceleration y (m/s^2)"', T / 100, *X.T[:2]),
        {},
        (100, ("Acceleration x (m/s^2)", "Acceleration y (m/s^2)"), {"units": "m/s²"}),
    ),
    "phyphox with semicolons": (
        "Raw Data.csv",
        table('"Time (s)";"Pressure (hPa)"', T / 100, X[:, 0], sep=";", decimal=","),
        {},
        (100, ("Pressure (hPa)",), {"units": "hPa"}),
    ),
    "Physics Toolbox": (
        "a.csv",
        table("time;gFx;gFy;gFz;TgF", T / 100, *X.T, X[:, 0], sep=";", decimal=",", end=";"),
        {},
        (100, ("gFx", "gFy", "gFz", "TgF")),
    ),
    "Physics Toolbox, clock": (
        "a.csv",
        table("time,ax,ay,az", stamps(100, "%H:%M:%S:%f"), *X.T),
        {},
        (100, ("ax", "ay", "az")),
    ),
    "OpenBCI": (
        "OpenBCI-RAW.txt",
        OPENBCI
        + OPENBCI_HEAD
        + "\n"
        + rows(T % 256, *X.T[:2], X[:, 2], T0 + T // 30 / 8, sep=", "),
        {"window_s": 0.1},
        (250, ("EXG Channel 0", "EXG Channel 1"), {"units": "µV"}),
    ),
    "OpenBCI without names": (
        "OpenBCI-RAW.txt",
        OPENBCI + rows(T % 256, *X.T[:2], X[:, 2], stamps(250, "%H:%M:%S.%f"), sep=", "),
        {"window_s": 0.1},
        (250, ("EXG Channel 0", "EXG Channel 1")),
    ),
    "PhysioNet": (
        "samples.csv",
        "'Elapsed time','MLII','V5'\n'hh:mm:ss.mmm','mV','mV'\n"
        + rows([f"'0:{k / 250:06.3f}'" for k in T], *X.T[:2]),
        {"window_s": 0.1},
        (250, ("MLII", "V5"), {"units": "mV"}),
    ),
    "labels in capitals": (
        "a.csv",
        table("Time;x;Label", T / 50, X[:, 0], np.where(T < 100, "a", "b"), sep=";"),
        {},
        (50, ("x",), {"classes": ("a", "b")}),
    ),
    "OpenBCI of 2016": (
        "OpenBCI-RAW.txt",
        "%OpenBCI Raw EEG Data\n%\n%Sample Rate = 250.0 Hz\n%First Column = SampleIndex\n"
        "%Other Columns = EEG data in microvolts followed by Accel Data (in G)\n"
        + rows(T % 256, *X.T[:2], *X.T, sep=", "),
        {"window_s": 0.1},
        (250, ("EXG Channel 0", "EXG Channel 1")),
    ),
    "OpenSignals": ("opensignals.txt", opensignals(), {"window_s": 0.1}, (1000, ("A1", "A2"))),
    "Shimmer": (
        "a.csv",
        f"sep=\t\n{SHIMMER}\nms\tm/(s^2)*\tm/(s^2)*\n"
        + rows(T0 * 1000 + T * 20, *X.T[:2], sep="\t", end="\t"),
        {},
        (50, ("Shimmer_40AC_X_CAL", "Shimmer_40AC_Y_CAL")),
    ),
    "ActiGraph raw": (
        "a.csv",
        ACTIGRAPH.format(rate=" at 30 Hz ", epoch="00:00:00")
        + table("Accelerometer X,Accelerometer Y,Accelerometer Z", *X.T),
        {},
        (30, ("Accelerometer X", "Accelerometer Y", "Accelerometer Z"), {"units": "g"}),
    ),
    "ActiGraph with times": (
        "a.csv",
        ACTIGRAPH.format(rate=" at 30 Hz ", epoch="00:00:00")
        + table("Timestamp,Accelerometer X", stamps(30, "%m/%d/%Y %H:%M:%S.%f"), X[:, 0]),
        {},
        (30, ("Accelerometer X",)),
    ),
    "ActiGraph counts": (
        "a.csv",
        ACTIGRAPH.format(rate="", epoch="00:00:10") + rows(*(np.abs(100 * X).astype(int)).T),
        {"window_s": 100},
        (0.1, ("column 1", "column 2", "column 3")),
    ),
    "LabChart": (
        "a.txt",
        LABCHART + rows(T / 1000, *X.T[:2], sep="\t"),
        {"window_s": 0.1},
        (1000, ("ECG", "Resp"), {"units": ("mV", "V")}),
    ),
    "Mind Monitor": (
        "mindMonitor.csv",
        MIND
        + "\n"
        + rows(stamps(256), *(X[:, 0],) * 6, T * 0 + 1, [""] * N)
        + "2018-12-05 16:28:58,,,,,,,,/muse/elements/blink\n",
        {"window_s": 0.1},
        (256, ("RAW_TP9", "RAW_AF7", "RAW_AF8", "RAW_TP10")),
    ),
    "Muse": (
        "a.csv",
        table("timestamps,TP9,AF7,AF8", T0 + T / 256, *X.T),
        {"window_s": 0.1},
        (256, ("TP9", "AF7", "AF8"), {"units": "µV"}),
    ),
    "UK Biobank": (
        "a.csv",
        "acceleration (mg) - 2014-05-07 13:29:50 - 2014-05-13 09:49:50 - "
        "sampleRate = 5 seconds,imputed\n" + rows(np.abs(X[:, 0]), T * 0),
        {"window_s": 50},
        (0.2, ("acceleration",), {"units": "mg"}),
    ),
    "Axivity": ("a.csv", rows(stamps(100), *X.T), {}, (100, ("column 2", "column 3", "column 4"))),
    "GENEActiv": (
        "a.csv",
        GENEACTIV + rows(stamps(100, "%Y-%m-%d %H:%M:%S:%f"), *X.T, T * 0, T * 0, T * 0 + 20.5),
        {},
        (100, XYZ, {"units": "g"}),
    ),
    "EMOTIV": (
        "a.csv",
        "title:a, recorded:05.12.18, sampling:128, subject:, labels:COUNTER AF3 F7 GYROX, chan:4\n"
        + rows(T % 129, *X.T[:2], T * 0),
        {"window_s": 0.1},
        (128, ("AF3", "F7")),
    ),
    "Xsens": (
        "a.csv",
        "// Start Time: 0\n// Update Rate: 100.0Hz\n"
        + table("PacketCounter,SampleTimeFine,Acc_X,Acc_Y", T + 9, T * 0, *X.T[:2]),
        {},
        (100, ("Acc_X", "Acc_Y")),
    ),
}


def write(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("case", READ.values(), ids=READ)
def test_tables_are_read_rightly(tmp_path, case):
    name, text, options, (fs, channels, *more) = case
    about = more[0] if more else {}
    rec = Recordings.read(write(tmp_path, name, text), **({"window_s": 1} | options))
    assert (rec.fs, rec.channels) == (fs, channels)
    assert rec.X[0].std() > 0
    for key in ("units", "classes", "n_classes"):
        assert key not in about or getattr(rec, key) == about[key]
    if "start" in about:
        start = dt.datetime.fromisoformat(str(rec.columns["recording_start"][0]))
        assert start.timestamp() == about["start"]
    if "exact" in about:
        np.testing.assert_array_equal(rec.X[0, 0], about["exact"][:50])
    assert f"{fs:g} Hz" in rec.understood


BURST_SIZES = RNG.permutation(np.r_[[2] * 20, [8] * 20])
BURSTS = np.repeat(np.cumsum(RNG.integers(1, 9, 40)) / 50, BURST_SIZES)
CHANGED = np.cumsum(np.where(T < 100, 1 / 100, 1 / 140))
#: Name of the file, its text, options, and a word of the reason.
REFUSED = {
    "a rate that is another": ("a.csv", table("seconds_elapsed,x,y,z"), {"fs": 100}, "fs="),
    "a rate that is not of the header": (
        "BVP.csv",
        f"{T0}.0\n64.0\n" + rows(X[:, 0]),
        {"fs": 50},
        "64",
    ),
    "times that step back": (
        "a.csv",
        table("time,x,y,z", np.r_[T[:150], T[20:70]] / 50, *X.T),
        {},
        "line 152",
    ),
    "an hour twice": (
        "a.csv",
        table("time,x,y,z", stamps(50)[100:] + stamps(50, start=T0 - 3600)[:100], *X.T),
        {},
        "line 102",
    ),
    "a rate that changes": ("a.csv", table("time,x,y,z", CHANGED, *X.T), {}, "changes"),
    "neither time nor rate": ("a.csv", table("x,y,z", *X.T), {}, "fs="),
    "counted samples": ("a.csv", table("index,x,y,z", T, *X.T), {}, "fs="),
    "a distance": ("a.csv", table("distance,x,y,z", T / 2, *X.T), {}, "time="),
    "a counter without a name for it": (
        "a.csv",
        table("a,x,y,z", T * 5, *X.T),
        {"fs": 50},
        "ignore=",
    ),
    "steps of 20 of an unknown unit": ("a.csv", table("time,x,y,z", T * 20, *X.T), {}, "units="),
    "text that may be labels": (
        "a.csv",
        table("time,x,place", T / 50, X[:, 0], ["a", "b"] * 100),
        {},
        "label=",
    ),
    "thousands or decimals": (
        "a.csv",
        table("time;x", T / 50, ["1,234", "2,345"] * 100, sep=";"),
        {},
        "decimal=",
    ),
    "packets in bursts": ("a.csv", table("time,x", BURSTS, X[:, 0]), {}, "time"),
    "a wrong number": (
        "a.csv",
        table("time,x", T / 50, [*X[:99, 0], "1.2.3", *X[100:, 0]]),
        {},
        "line 101",
    ),
    "a row too long": (
        "a.csv",
        table("time,x", T / 50, X[:, 0]) + "4,1,2\n4.02,1\n",
        {},
        "line 202",
    ),
    "half a row": ("a.csv", table("time,x", T / 50, X[:, 0]) + "4.0", {}, "nan"),
    "a column that is not there": ("a.csv", table("time,x,y,z"), {"label": "activity"}, "activity"),
    "a binary file": ("a.csv", bytes(range(256)) * 20, {}, "text"),
    "OpenSignals with a bad header": (
        "a.txt",
        opensignals().replace("sampling rate", "rate"),
        {},
        "OpenSignals",
    ),
    "LabChart with two blocks": (
        "a.txt",
        2 * (LABCHART + rows(T / 1000, *X.T[:2], sep="\t")),
        {"window_s": 0.1},
        "line 207",
    ),
    "Empatica IBI": ("IBI.csv", f"{T0}.0, IBI\n" + rows(T + 0.5, np.abs(X[:, 0])), {}, "intervals"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_tables_are_refused_with_a_reason(tmp_path, case):
    name, text, options, word = case
    with pytest.raises(TensorContrastError, match=word):
        Recordings.read(write(tmp_path, name, text), **({"window_s": 1} | options))
