from meantime.cli.progress import EVERY, Lines


def test_away_from_a_terminal_a_line_comes_now_and_then(capsys):
    now = 0.0
    tell = Lines("classifying", lambda: now)
    for done in range(100, 200):  # a hundred were done before
        tell(done, 10_000)
        now += 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 99 // EVERY
    assert lines[0] == "meantime: classifying, 130 of 10000, 1.0/s, 2:44:30 left"


def test_a_run_that_stands_still_has_no_end(capsys):
    now = 0.0
    tell = Lines("encoding", lambda: now)
    tell(5, 10)
    now = EVERY
    tell(5, 10)
    assert capsys.readouterr().err == "meantime: encoding, 5 of 10, 0/s\n"
