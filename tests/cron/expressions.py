"""Random cron expressions, each with what it means, and how croniter and systemd write it; and a slow reference that knows the rules only
as docs/cron.md tells them."""
import calendar
import datetime

MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
WEEKDAYS = "SUN MON TUE WED THU FRI SAT".split()
BOUNDS = {"second": (0, 59), "minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12), "weekday": (0, 6)}


def name(field, value, random):
    if field == "month" and random.random() < 0.5:
        return MONTHS[value - 1]
    if field == "weekday" and random.random() < 0.5:
        return WEEKDAYS[value % 7]
    return str(value)


def item(field, random):
    """One item of a list: its text, and what it means."""
    low, high = BOUNDS[field]
    a, b = sorted((random.randint(low, high), random.randint(low, high)))
    step = random.randint(2, max(2, (high - low) // 2))
    kind = random.random()
    if kind < 0.5:
        return name(field, a, random), {a}
    if kind < 0.75 and a < b:
        return f"{name(field, a, random)}-{name(field, b, random)}", set(range(a, b + 1))
    if kind < 0.9 and a < b:
        return f"{a}-{b}/{step}", set(range(a, b + 1, step))
    return f"{a}/{step}", set(range(a, high + 1, step))


def field(which, random, star=0.3, stepped=0.2):
    """A field: its text, what it means, and whether it is one step through all values."""
    low, high = BOUNDS[which]
    kind = random.random()
    if kind < star:
        return "*", set(range(low, high + 1)), False
    if kind < star + stepped:
        step = random.randint(2, high - low)
        return f"*/{step}", set(range(low, high + 1, step)), True
    items = [item(which, random) for _ in range(random.choice((1, 1, 1, 2, 3)))]
    return ",".join(text for text, _ in items), set().union(*(values for _, values in items)), False


class Expression:
    """Fields as sets, and what is special about days and weekdays."""

    def __init__(self, random, specials=True, coarse=False):
        self.texts = {}
        self.sets = {}
        self.stars = {}
        self.with_seconds = random.random() < 0.25 and not coarse
        for which in BOUNDS:
            star = {"second": 0.1, "minute": 0.2, "hour": 0.3}.get(which, 0.55)
            self.texts[which], self.sets[which], self.stars[which] = field(which, random, star)
        if not self.with_seconds:
            self.texts["second"], self.sets["second"] = "0", {0}
        self.from_last, self.near, self.near_last, self.nth, self.last = set(), set(), set(), set(), set()
        self.only_special_day = self.only_special_weekday = False
        if specials and random.random() < 0.3:
            self.special_day(random)
        if specials and random.random() < 0.3:
            self.special_weekday(random)

    def special_day(self, random):
        kind, n = random.choice("LLBWN"), random.randint(1, 30)
        text = {"L": "L", "B": f"L-{n}", "W": f"{n}W", "N": random.choice(("LW", f"L-{n}W"))}[kind]
        {"L": self.from_last, "B": self.from_last, "W": self.near, "N": self.near_last}[kind].add(
            0 if text in ("L", "LW") else n)
        self.only_special_day = self.texts["day"] == "*" or random.random() < 0.5
        self.stars["day"] = False
        if self.only_special_day:
            self.texts["day"], self.sets["day"] = text, set()
        else:
            self.texts["day"] += "," + text

    def special_weekday(self, random):
        weekday, n = random.randint(0, 7), random.randint(1, 5)
        if random.random() < 0.6:
            text = f"{name('weekday', weekday, random)}#{n}"
            self.nth.add((weekday % 7, n))
        else:
            text = f"{name('weekday', weekday, random)}L"
            self.last.add(weekday % 7)
        self.only_special_weekday = self.texts["weekday"] == "*" or random.random() < 0.5
        self.stars["weekday"] = False
        if self.only_special_weekday:
            self.texts["weekday"], self.sets["weekday"] = text, set()
        else:
            self.texts["weekday"] += "," + text

    @property
    def any_day(self):
        return len(self.sets["day"]) == 31

    @property
    def any_weekday(self):
        return len(self.sets["weekday"]) == 7

    @property
    def both(self):
        """Day and weekday are restricted, and one of them is a step through all values."""
        return not self.any_day and not self.any_weekday and (self.stars["day"] or self.stars["weekday"])

    # ---- how others write it

    @property
    def pawl(self):
        first = [self.texts["second"]] if self.with_seconds else []
        return " ".join(first + [self.texts[which] for which in list(BOUNDS)[1:]])

    @property
    def croniter(self):
        """None: croniter has no way to write it."""
        if self.near or self.near_last or any(self.from_last - {0}) or (self.last | self.nth and not self.only_special_weekday):
            return None
        texts = dict(self.texts)
        if self.last:
            texts["weekday"] = f"L{min(self.last)}"
        last = [texts["second"]] if self.with_seconds else []
        return " ".join([texts[which] for which in list(BOUNDS)[1:]] + last)

    @property
    def systemd(self):
        """None: systemd has no way to write it. It counts back 28 days at most."""
        if self.near or self.near_last or any(n > 27 for n in self.from_last) or (not self.any_day and not self.any_weekday and not self.both):
            return None
        if (self.from_last and not self.only_special_day) or ((self.last or self.nth) and not self.only_special_weekday):
            return None
        if (self.last or self.nth) and not self.any_day:
            return None
        listed = {which: ",".join(str(n) for n in sorted(self.sets[which])) for which in BOUNDS}
        weekdays = sorted(self.sets["weekday"]) + [weekday for weekday, _ in self.nth] + sorted(self.last)
        days = "-*" if self.any_day else "-" + listed["day"]
        if self.from_last:
            days = f"~{min(self.from_last) + 1}"
        elif self.nth:
            n = min(self.nth)[1]
            days = f"-{n * 7 - 6}..{min(n * 7, 31)}"
        elif self.last:
            days = "~7/1"
        before = "" if self.any_weekday else ",".join(WEEKDAYS[n].title() for n in weekdays) + " "
        return f"{before}*-{listed['month']}{days} {listed['hour']}:{listed['minute']}:{listed['second']}"

    # ---- what it means

    def nearest(self, year, month, day):
        length = calendar.monthrange(year, month)[1]
        if not 1 <= day <= length:
            return None
        for distance in (0, -1, 1, -2, 2):
            if 1 <= day + distance <= length and datetime.date(year, month, day + distance).weekday() < 5:
                return day + distance

    def date_fits(self, date):
        length = calendar.monthrange(date.year, date.month)[1]
        if date.day in self.sets["day"] or length - date.day in self.from_last:
            return True
        near = self.near | {length - n for n in self.near_last}
        return date.day in {self.nearest(date.year, date.month, day) for day in near}

    def weekday_fits(self, date):
        weekday, length = date.isoweekday() % 7, calendar.monthrange(date.year, date.month)[1]
        return (weekday in self.sets["weekday"] or (weekday, (date.day + 6) // 7) in self.nth
                or (weekday in self.last and date.day + 7 > length))

    def day_fits(self, date):
        if date.month not in self.sets["month"]:
            return False
        if self.any_day or self.any_weekday or self.both:
            return (self.any_day or self.date_fits(date)) and (self.any_weekday or self.weekday_fits(date))
        return self.date_fits(date) or self.weekday_fits(date)

    def possible(self):
        start = datetime.date(2000, 1, 1)
        return any(self.day_fits(start + datetime.timedelta(n)) for n in range(28 * 366))

    def times(self, forward, limit):
        """The times of a day in order, from a time on."""
        order = (lambda values: sorted(values)) if forward else (lambda values: sorted(values, reverse=True))
        later = (lambda a, b: a >= b) if forward else (lambda a, b: a <= b)
        for hour in order(self.sets["hour"]):
            if limit and not later(hour, limit[0]):
                continue
            for minute in order(self.sets["minute"]):
                if limit and not later((hour, minute), limit[:2]):
                    continue
                for second in order(self.sets["second"]):
                    if not limit or later((hour, minute, second), limit):
                        yield hour, minute, second

    def reference(self, start, count):
        """The following times in UTC, or those before if count is negative, in seconds since 1970. Slow."""
        forward, out = count > 0, []
        at = datetime.datetime.utcfromtimestamp(start + (1 if forward else -1))
        date, limit, silent = at.date(), (at.hour, at.minute, at.second), 0
        while silent < 45 * 366:
            silent += 1
            if self.day_fits(date):
                silent = 0
                for hour, minute, second in self.times(forward, limit):
                    out.append(calendar.timegm((date.year, date.month, date.day, hour, minute, second)))
                    if len(out) == abs(count):
                        return out
            limit = None
            date += datetime.timedelta(1 if forward else -1)
            if date.year < 1970:
                return [t for t in out if t >= 0]
        return out
