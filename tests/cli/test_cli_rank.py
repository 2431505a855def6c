"""``tensorcontrast rank`` and the diagnosis in a report."""

import re

import pytest

FAST = ["--ranks", "1,3", "--starts", 1, "--splits", 1, "-p", "max_iter=6", "-p", "tol=0"]


def test_table_json_and_picture(cli, data, tmp_path):
    picture = tmp_path / "rank.png"
    done = cli("rank", data, *FAST, "-o", picture, "--json")
    assert done.code == 0, done.err
    found = done.json
    assert found["recommended"] in (1, 3) and found["accuracy_rank"] in (1, 3)
    assert [p["rank"] for p in found["points"]] == [1, 3]
    assert found["split_by"] == "subjects" and found["picture"] == str(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    done = cli("rank", data, *FAST, "-m", "cpd")
    assert done.code == 0 and f"recommended rank: {found['recommended']}"[:17] in done.out
    assert "core consistency" in done.out and "accuracy" in done.out
    assert cli("rank", data, *FAST, "-o", picture).code != 0  # there already


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--ranks", "two"], "list of ranks"),
        (["--ranks", "0,2"], "list of ranks"),
        (["-m", "simclr"], "plc, cpd or atd"),
        (["-p", "rank=3"], "use --ranks"),
        (["-o", "x.txt"], "pictures are"),
    ],
)
def test_wrong_calls(cli, data, args, message):
    done = cli("rank", data, *args)
    assert done.code == 2 and message in " ".join(done.err.split())


def test_non_negative_factors_from_the_command_line(cli, data, tmp_path):
    path = tmp_path / "m.tcm"
    given = [
        "-m",
        "cpd",
        "-r",
        3,
        "-p",
        "max_iter=8",
        "-p",
        "tol=0",
        "-p",
        "nonnegative=true",
        "-o",
        path,
    ]
    assert cli("fit", data, *given, "--json").json["convolution_features"] == 0
    done = cli("fit", data, *given, "--convolution", "--force")
    assert done.code == 2 and "-p nonnegative=true" in done.err
    done = cli("fit", data, *given, "--representation", "log-real-imag", "--force")
    assert done.code != 0 and "negative" in done.err


def test_the_report_says_which_features_are_stable(cli, model, data, tmp_path):
    page = tmp_path / "r.html"
    assert cli("report", model, "--data", data, "-o", page).code == 0
    text = page.read_text(encoding="utf-8")
    assert "Can the features be trusted?" in text
    section = re.search(r'(?s)<section id="trust".*?</section>', text)[0]
    assert len(re.findall("stable", section)) >= 3
    plain = tmp_path / "plain.html"
    assert cli("report", model, "--data", data, "-o", plain, "--no-diagnose").code == 0
    text = plain.read_text(encoding="utf-8")
    assert "Can the features be trusted?" not in text and "--no-diagnose" in text
