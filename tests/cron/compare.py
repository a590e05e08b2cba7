#!/usr/bin/python3
"""Cron expressions and time zones against croniter and systemd-analyze, and against a slow reference (expressions.py).

    compare.py PROBE            a few thousand expressions, every field, a change of the clock in every zone
    compare.py PROBE --long     more expressions, and all changes of ten years in every zone
    compare.py PROBE --write    also writes the table of differences into docs/cron.md

The reference must always agree. Where one of the others does not, the difference must be of a kind that DIFFERENCES lists and that
docs/cron.md argues; anything else fails. Each kind has an example, which is tried, and the table in the document must be what the
examples give.
"""
import argparse
import calendar
import collections
import datetime
import itertools
import os
import random
import re
import subprocess
import sys
import time
import zoneinfo

import pytz
from croniter.croniter import CroniterBadDateError, CroniterError, croniter

sys.dont_write_bytecode = True
from expressions import Expression  # noqa: E402

UTC = datetime.timezone.utc
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOCUMENT = os.path.join(ROOT, "docs", "cron.md")
DEFAULT, RUN, SKIP, FIRST, BOTH = 0, 1, 2, 1, 2

# ---- who is asked ------------------------------------------------------------------------------------------------------------------


class Refused(Exception):
    pass


class Pawl:
    def __init__(self, probe):
        self.process = subprocess.Popen([probe], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, text, start, count, zone="UTC", gap=DEFAULT, overlap=DEFAULT):
        self.process.stdin.write(f"{text}\t{zone}\t{start}\t{count}\t{gap}\t{overlap}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().rstrip("\n").split("\t")
        if answer[0] != "ok":
            raise Refused(answer[-1])
        return [int(time) for time in answer[2].split()]


def ask_croniter(text, start, count, zone="UTC"):
    """The times before 1970 are left out: pawl has none."""
    try:
        times = croniter(text, datetime.datetime.fromtimestamp(start, pytz.timezone(zone)))
    except CroniterError as error:
        raise Refused(str(error)) from None
    step, out = times.get_next if count > 0 else times.get_prev, []
    try:
        while len(out) < abs(count):
            out.append(int(step(float)))
    except CroniterBadDateError:
        pass
    return [time for time in out if time >= 0]


def ask_systemd(texts, start, count, zone="UTC"):
    base = datetime.datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    command = ["systemd-analyze", "calendar", f"--iterations={count}", f"--base-time={base}", *texts]
    done = subprocess.run(command, env={"TZ": zone, "LC_ALL": "C"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:  # "infinite loop in calendar calculation"
        return [ask_systemd([text], start, count, zone)[0] for text in texts] if len(texts) > 1 else [[]]
    answer = done.stdout
    if zone != "UTC" and "(in UTC)" not in answer:  # a zone that systemd takes for UTC; this way is slow
        return ask_systemd([f"{text} {zone}" for text in texts], start, count)
    blocks = answer.strip().split("\n\n")
    assert len(blocks) == len(texts), answer
    times = r"(?:Next elapse|Iter\. #\d+|\(in UTC\)): \w{3} (\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d) UTC"
    return [[calendar.timegm(tuple(map(int, time))) for time in re.findall(times, block)] for block in blocks]


def answer_of(ask, *arguments):
    try:
        return ask(*arguments)
    except Refused as error:
        return error


# ---- the differences that are argued -------------------------------------------------------------------------------------------------


class Difference(collections.namedtuple("Difference", "who text theirs start count zone why")):
    """Somebody else's answer to an example is not pawl's. `theirs` is how they write it, `text` how pawl does."""


def utc(*fields):
    return int(datetime.datetime(*fields, tzinfo=UTC).timestamp())


SPRING, AUTUMN = utc(2026, 3, 28, 12), utc(2026, 10, 24, 22, 10)
DIFFERENCES = {
    "second": Difference("croniter", "30 0 9 * * *", "30 0 9 * * *", utc(2026, 1, 1), 2, "UTC",
                         "The second stands first, as it does nearly everywhere else; croniter wants it last."),
    "both": Difference("croniter", "0 0 */2 * MON", "0 0 */2 * MON", utc(2026, 2, 1), 2, "UTC",
                       "crontab(5): only fields without a `*` are alternatives to each other. Every second day, if it is a Monday."),
    "counted": Difference("croniter", "0 0 15 * FRI#2", "0 0 15 * FRI#2", utc(2026, 2, 1), 2, "UTC",
                          "Two restricted fields are alternatives, also if one counts weekdays; croniter wants both then."),
    "week": Difference("croniter", "0 0 * * 5/2", "0 0 * * 5/2", utc(2026, 2, 1), 2, "UTC",
                       "A week ends with day 6: 7 is another name of day 0 and not one day more."),
    "leap": Difference("croniter", "0 0 * FEB *", "0 0 * FEB *", utc(2028, 3, 5), -2, "UTC",
                       "29 February; croniter takes all years for common ones on its way back."),
    "short": Difference("croniter", "0 0 */15 * *", "0 0 */15 * *", utc(2026, 2, 25), 2, "UTC",
                        "1 March follows 28 February; croniter looks for a 31st of February and ends up behind it."),
    "thirty": Difference("croniter", "0 0 1-30,L * SAT", "0 0 1-30,L * SAT", utc(2026, 9, 25), 2, "UTC",
                         "croniter counts 31 different items, takes them for all days, and then only looks at the weekday."),
    "across": Difference("croniter", "0 22-2 * * *", "0 22-2 * * *", utc(2026, 2, 1, 12), 2, "UTC",
                         "A range across the end of a field has only one meaning; no reason to refuse it."),
    "step": Difference("croniter", "*/90 * * * *", "*/90 * * * *", utc(2026, 2, 1, 12), 2, "UTC",
                       "Nobody who writes every 90 minutes wants every hour. Refused, with a hint at intervals."),
    "never": Difference("croniter", "0 0 30 2 *", "0 0 30 2 *", utc(2026, 2, 1, 12), 2, "UTC",
                        "A schedule that never fires is a mistake, and is refused when it is made; croniter notices when asked for a time."),
    "working": Difference("croniter", "0 0 15W * *", "0 0 15W * *", utc(2026, 2, 1, 12), 2, "UTC",
                          "`W` and `L-3` are not known to croniter."),
    "wrong": Difference("croniter", "30 2 * * *", "30 2 * * *", SPRING, 2, "Europe/Berlin",
                        "2:30 does not exist on 29 March. It runs when the clock passes it, at 3:00; croniter runs at 1:30."),
    "later": Difference("croniter", "30,55 0,1 * * *", "30,55 0,1 * * *", utc(2026, 3, 8, 6, 55), 1, "America/New_York",
                        "The night after the change has a 0:30 like any other; croniter misses it."),
    "again": Difference("croniter", "35 1,2,3 * * *", "35 1,2,3 * * *", utc(2026, 11, 1, 5, 35), 1, "America/New_York",
                        "1:35 comes twice on 1 November. Once a day is once: the second time only if asked for."),
    "stuck": Difference("croniter", "40 * * * *", "40 * * * *", utc(2020, 3, 26, 21, 40), 1, "Asia/Damascus",
                        "The next time is later than now, always; croniter answers with the present."),
    "gap": Difference("systemd", "30 2 * * *", "*-*-* 02:30:00", SPRING, 2, "Europe/Berlin",
                      "What must happen once a day happens on this day too; with the policy `skip` it is as systemd does it."),
    "odd": Difference("systemd", "45 1,3 * * *", "*-*-* 1,3:45:00", utc(2024, 3, 30, 12), 2, "Europe/Dublin",
                      "Where the clock goes forward by another amount than an hour, at another time than the full hour, or into what is called "
                      "standard time as in Ireland, systemd loses times of that day behind one that does not exist, or gives up."),
    "hourly": Difference("systemd", "30 * * * *", "*-*-* *:30:00", AUTUMN + 7200, 2, "Europe/Berlin",
                         "Every hour is every 60 minutes, also when an hour comes twice; with the policy `first` it is as systemd does it."),
}


def show(answer, zone):
    if isinstance(answer, Refused) or not answer:
        return "refused" if isinstance(answer, Refused) else "none"
    clock = zoneinfo.ZoneInfo(zone)
    times = [datetime.datetime.fromtimestamp(time, clock) for time in answer]
    return ", ".join(f"{time:%a} {time.day} {time:%b %Y %H:%M}" + f":{time:%S}" * (time.second > 0) + f" {time:%Z}" * (zone != "UTC")
                     for time in times)


def examples(pawl):
    """Each example's answers; they must differ."""
    rows = []
    for name, d in DIFFERENCES.items():
        ours = answer_of(pawl, d.text, d.start, d.count, d.zone)
        if d.who == "croniter":
            theirs = answer_of(ask_croniter, d.theirs, d.start, d.count, d.zone)
        else:
            theirs = ask_systemd([d.theirs], d.start, d.count, d.zone)[0]
            assert name == "odd" or theirs == pawl(d.text, d.start, d.count, d.zone, SKIP, FIRST), name
        if show(ours, d.zone) == show(theirs, d.zone):
            raise SystemExit(f"the example of \"{name}\" shows no difference any more: {d.text} gives {show(ours, d.zone)}")
        rows.append((name, d, ours, theirs))
    return rows


def table(rows):
    out = ["| | expression | from | pawl | other | why |", "|---|---|---|---|---|---|"]
    for name, d, ours, theirs in rows:
        way = "before " if d.count < 0 else ""
        place = "" if d.zone == "UTC" else f" in {d.zone}"
        out.append(f"| {d.who} | `{d.text}`{place} | {way}{show([d.start], d.zone)} | {show(ours, d.zone)} | {show(theirs, d.zone)} | {d.why} |")
    return "\n".join(out) + "\n"


def check_document(pawl, write):
    begin, end = "<!-- differences: made by tests/cron/compare.py -->\n", "<!-- end of differences -->\n"
    wanted = table(examples(pawl))
    with open(DOCUMENT) as document:
        text = document.read()
    head, rest = text.split(begin)
    there, tail = rest.split(end)
    if write and there != wanted:
        with open(DOCUMENT, "w") as document:
            document.write(head + begin + wanted + end + tail)
    elif there != wanted:
        raise SystemExit("docs/cron.md does not have the table that the examples give: run tests/cron/compare.py PROBE --write")


# ---- expressions ---------------------------------------------------------------------------------------------------------------------


class Tally:
    def __init__(self):
        self.compared = collections.Counter()
        self.kinds = collections.Counter()
        self.failures = 0

    def fail(self, *words):
        self.failures += 1
        if self.failures <= 20:
            print("unexplained:", *words)


def first_difference(ours, theirs):
    return next((a for a, b in itertools.zip_longest(ours, theirs) if a != b), None)


def on_leap_day(time):
    return time is not None and datetime.datetime.fromtimestamp(time, UTC).strftime("%m%d") == "0229"


def behind_short_month(time, days):
    """The month of the time, or the one before it, does not have all of the days."""
    if time is None or not days:
        return False
    first = datetime.datetime.fromtimestamp(time, UTC).replace(day=1)
    before = first - datetime.timedelta(1)
    return max(days) > min(before.day, calendar.monthrange(first.year, first.month)[1])


def reaches_sunday(text):
    """An item a/n of the weekdays whose steps hit 7."""
    names = {"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6}
    items = [item.split("/") for item in text.split(",") if "/" in item and not item.startswith("*") and "-" not in item]
    return any((7 - (names[a] if a in names else int(a))) % int(n) == 0 for a, n in items)


def kind_of(e, count, ours, theirs):
    """Which of the differences it is that croniter has with an expression; None: none of them."""
    if e.both:
        return "both"
    if (e.nth or e.last) and not e.any_day:
        return "counted"
    if reaches_sunday(e.texts["weekday"]):
        return "week"
    missed = None if isinstance(theirs, Refused) else first_difference(ours, theirs)
    if count < 0 and (on_leap_day(missed) or (theirs == [] and 29 in e.sets["day"] and e.sets["month"] == {2})):
        return "leap"
    if e.from_last and len(e.sets["day"]) == 30:
        return "thirty"
    return "short" if count > 0 and behind_short_month(missed, e.sets["day"]) else None


def random_expressions(pawl, tally, rng, many):
    for_systemd = []
    for _ in range(many):
        e, start, count = Expression(rng), rng.randint(7 * 10**8, 20 * 10**8), rng.choice((5, -5))
        ours = answer_of(pawl, e.pawl, start, count)
        tally.compared["reference"] += 1
        if isinstance(ours, Refused):
            if "never fires" not in str(ours) or e.possible():
                tally.fail(e.pawl, ours)
            continue
        reference = e.reference(start, count)
        if ours != reference:
            tally.fail(e.pawl, start, count, ours, "reference", reference)
        if e.croniter:
            theirs = answer_of(ask_croniter, e.croniter, start, count)
            tally.compared["croniter"] += 1
            if isinstance(theirs, Refused) or theirs != ours:
                kind = kind_of(e, count, ours, theirs)
                tally.kinds[kind] += 1
                if not kind:
                    tally.fail(e.pawl, start, count, ours, "croniter", theirs)
        if e.systemd:
            for_systemd.append(e)
    for i in range(0, len(for_systemd), 20):
        some, start = for_systemd[i:i + 20], rng.randint(10**9, 20 * 10**8)
        for e, theirs in zip(some, ask_systemd([e.systemd for e in some], start, 4)):
            tally.compared["systemd"] += 1
            if theirs != pawl(e.pawl, start, 4):
                tally.fail(e.pawl, start, pawl(e.pawl, start, 4), "systemd", theirs)


def items(low, high, rng, many):
    """Texts for a field: all values around its range, and many of the other forms."""
    near = range(max(0, low - 1), high + 3)
    yield from (str(a) for a in near)
    yield from (f"*/{a}" for a in near)
    for _ in range(many):
        a, b, n = rng.choice(near), rng.choice(near), rng.randint(0, high + 1)
        yield rng.choice((f"{a}-{b}", f"{a}-{b}/{n}", f"{a}/{n}", f"{a},{b}"))


def kind_of_item(text, index, ours, theirs):
    """Which difference it is that croniter has with one field; the fields are those of five."""
    low, high = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)][index]
    parts = re.fullmatch(r"(\*|\d+)(?:-(\d+))?(?:/(\d+))?(?:,\d+)?", text).groups()
    if isinstance(ours, Refused):
        if "never fires" in str(ours):
            return "never"
        return "step" if parts[2] and int(parts[2]) > min(high, 6 if index == 4 else high) - low else None
    if index == 2 and not isinstance(theirs, Refused) and behind_short_month(first_difference(ours, theirs), {31}):
        return "short"
    if isinstance(theirs, Refused) and parts[1] and int(parts[0]) > int(parts[1]):
        return "across"
    return "week" if index == 4 and reaches_sunday(text) else None


def single_fields(pawl, tally, rng, many):
    for index, (low, high) in enumerate([(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]):
        for text in items(low, high, rng, many):
            fields = ["0", "0", "*", "*", "*"]
            fields[index] = text
            start, expression = rng.randint(7 * 10**8, 20 * 10**8), " ".join(fields)
            ours, theirs = answer_of(pawl, expression, start, 4), answer_of(ask_croniter, expression, start, 4)
            tally.compared["fields"] += 1
            if (isinstance(ours, Refused) and isinstance(theirs, Refused)) or ours == theirs:
                continue
            kind = kind_of_item(text, index, ours, theirs)
            tally.kinds[kind] += 1
            if not kind:
                tally.fail(expression, start, ours, "croniter", theirs)


# ---- zones ---------------------------------------------------------------------------------------------------------------------------


def changes(zone):
    """When the clocks of a zone are changed, 2018 to 2027."""
    clock = zoneinfo.ZoneInfo(zone)

    def offset(time):
        return datetime.datetime.fromtimestamp(time, clock).utcoffset()

    for time in range(utc(2018, 1, 1), utc(2028, 1, 1), 7 * 86400):
        low, high = time, time + 7 * 86400
        if offset(low) == offset(high):
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == offset(low) else (low, middle)
        yield high


def near_change(rng, hour):
    """An expression with times around an hour: as cron and as systemd write it, its minutes and hours."""
    hours = sorted({(hour - rng.randint(-2, 3)) % 24 for _ in range(rng.randint(1, 3))})
    minutes = sorted({rng.randrange(0, 60, 5) for _ in range(rng.randint(1, 3))})
    if rng.random() < 0.2:
        hours = list(range(24))
    listed = [",".join(map(str, minutes)), ",".join(map(str, hours))]
    return f"{listed[0]} {listed[1]} * * *", f"*-*-* {listed[1]}:{listed[0]}:00", minutes, hours


def kind_of_time(pawl, text, zone, start, change, ours, theirs, minutes, hours):
    """Which difference it is that croniter has near a change of the clocks. Elsewhere it may have none."""
    if not start < change <= max(ours, theirs):
        return None
    local = datetime.datetime.fromtimestamp(theirs, zoneinfo.ZoneInfo(zone))
    if theirs in [pawl(text, start, 1, zone, gap, overlap)[0] for gap in (RUN, SKIP) for overlap in (FIRST, BOTH)]:
        return "again"
    if theirs <= start:
        return "stuck"
    if local.minute in minutes and local.hour in hours:
        return "later"
    return "wrong"


def is_odd(zone, change, ours, theirs):
    """The clock goes forward, but not by an hour of summer time on the full hour, and systemd lacks times of that day, or all behind it."""
    os.environ["TZ"] = zone
    time.tzset()
    before, after = time.localtime(change - 1), time.localtime(change)
    usual = not before.tm_isdst and after.tm_isdst and after.tm_gmtoff - before.tm_gmtoff == 3600 and after.tm_min == 0
    lacking = [at for at in ours if theirs and at <= theirs[-1] and at not in theirs]
    that_day = all(at >= change and time.localtime(at).tm_mday == after.tm_mday for at in lacking)
    return after.tm_gmtoff > before.tm_gmtoff and not usual and that_day and all(at in ours or at > ours[-1] for at in theirs)


def one_change(pawl, tally, rng, zone, change):
    hour = datetime.datetime.fromtimestamp(change, zoneinfo.ZoneInfo(zone)).hour
    start = change - rng.randint(1, 30) * 3600 - rng.randint(0, 3599)
    some = [near_change(rng, hour) for _ in range(3)]
    for (text, _, _, _), theirs in zip(some, ask_systemd([s for _, s, _, _ in some], start, 12, zone)):
        ours = pawl(text, start, 12, zone, SKIP, FIRST)
        tally.compared["systemd in zones"] += 1
        if ours != theirs:
            kind = "odd" if is_odd(zone, change, ours, theirs) else None
            tally.kinds[kind] += 1
            if not kind:
                tally.fail(text, zone, start, ours, "systemd", theirs)
    for text, _, minutes, hours in some:
        now = start
        for ours in pawl(text, start, 8, zone):
            theirs = ask_croniter(text, now, 1, zone)[0]
            tally.compared["croniter in zones"] += 1
            if ours != theirs:
                kind = kind_of_time(pawl, text, zone, now, change, ours, theirs, minutes, hours)
                tally.kinds[kind] += 1
                if not kind:
                    tally.fail(text, zone, now, ours, "croniter", theirs)
            now = ours


def zones(pawl, tally, rng, every_change):
    for zone in sorted(zoneinfo.available_timezones() - {"localtime", "posixrules"}):
        found = list(changes(zone))
        tally.compared["zones"] += 1
        for change in found if every_change else rng.sample(found, min(1, len(found))):
            tally.compared["changes"] += 1
            one_change(pawl, tally, rng, zone, change)


# ---- all of it -----------------------------------------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    pawl, tally, rng = Pawl(options.probe), Tally(), random.Random(1)
    check_document(pawl, options.write)
    single_fields(pawl, tally, rng, 10000 if options.long else 400)
    random_expressions(pawl, tally, rng, 30000 if options.long else 3000)
    zones(pawl, tally, rng, options.long)
    print("compared:", dict(tally.compared))
    print("differences:", dict(tally.kinds))
    sys.exit(1 if tally.failures else 0)


main()
