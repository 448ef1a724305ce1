"""Numbers with units, dates and times: found in a text, and normalized, so that 1,200 m is 1.2 km.

Units are known by name: which are the same, and which convert into each other.

Out of scope: numbers in words ("twelve hundred"), signs, and what has several points (versions). Linear in the text:
each pattern begins with a set of characters, and what repeats is bounded.
"""

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

_TABLE = """
% 1 % percent pct
pp 1 pp
$ 1 $ USD dollar dollars
€ 1 € EUR euro euros
£ 1 £ GBP
¥ 1 ¥ JPY yen
length 1e-9 nm nanometre 1e-6 µm micrometre micron .001 mm millimetre .01 cm centimetre 1 m metre 1000 km kilometre
length .0254 inch inches .3048 ft foot feet .9144 yd yard 1609.344 mi mile 1852 nmi 149597870700 au AU 9.4607e15 ly
mass 1e-9 µg mcg 1e-6 mg milligram .001 g gram 1 kg kilo kilogram 1000 t tonne .45359237 lb lbs pound .0283495 oz ounce
mass 907.18474 ton
time 1e-9 ns 1e-6 µs .001 ms millisecond 1 s sec second 60 min minute 3600 h hr hour 86400 day 604800 week
years .0833333333 month 1 year yr 10 decade 100 century centuries
data .125 bit 1 byte 1e3 kB KB kilobyte 1e6 MB megabyte 1e9 GB gigabyte 1e12 TB terabyte 1e15 PB petabyte
data 1024 KiB 1048576 MiB 1073741824 GiB 1099511627776 TiB
bandwidth 1e3 kbit/s kbps 1e6 Mbit/s Mbps 1e9 Gbit/s Gbps
power .001 mW milliwatt 1 W watt 1e3 kW kilowatt 1e6 MW megawatt 1e9 GW gigawatt 745.7 hp horsepower
energy 1 J joule 1e3 kJ kilojoule 1e6 MJ 3.6e3 Wh 3.6e6 kWh 3.6e9 MWh 3.6e12 GWh 3.6e15 TWh 4.184 cal 4184 kcal calorie
pressure 1 Pa pascal 100 hPa mbar millibar 1e3 kPa 1e5 bar bars 1e6 MPa 6894.757 psi 101325 atm
speed 1 m/s .2777777778 km/h kph kmh .44704 mph mi/h .5144444444 kn knot .3048 ft/s
area 1 m² m2 sqm 1e6 km² km2 1e4 ha hectare 4046.8564 acre .09290304 ft² sqft 2589988.11 mi²
volume .001 ml mL millilitre .01 cl 1 l L litre 1000 m³ m3 3.785411784 gal gallon 158.987 barrel
frequency 1 Hz hertz 1e3 kHz 1e6 MHz 1e9 GHz 1e12 THz .0166666667 rpm
voltage .001 mV 1 V volt 1e3 kV kilovolt
current .001 mA 1 A amp ampere
charge .001 mAh 1 Ah
sound 1 dB decibel
light 1 lm lumen
force 1 N newton 1e3 kN
torque 1 Nm
temperature 1 °C celsius centigrade 2 °F fahrenheit 3 K kelvin
angle 1 ° deg degree
"""
"""A line: the dimension, then factors of its base, each with a unit's names; words get a plural by themselves."""

_PER = {"second": "/s", "hour": "/h"}
_POWERS = {"square": "²", "sq": "²", "cubic": "³"}
_LEAST_WORD = 3
"""Letters from which a name is a word, in any case, with an American spelling and a plural of its own."""


def _read_table() -> tuple[dict[str, str], dict[str, tuple[str, float]]]:
    names, units = dict[str, str](), dict[str, tuple[str, float]]()
    for line in _TABLE.strip().splitlines():
        dimension, *cells = line.split()
        unit, factor = "", 0.0
        for before, cell in pairwise([dimension, *cells]):
            if cell[0] in ".123456789":
                factor = float(cell)
                continue
            unit = cell if before[0] in ".123456789" else unit
            units.setdefault(unit, (dimension, factor))
            names[cell] = unit
            if len(cell) > _LEAST_WORD and cell.islower():
                american = cell.removesuffix("re") + "er" if cell.endswith(("metre", "litre")) else cell
                names |= dict.fromkeys((cell + "s", american, american + "s"), unit)
    return names, units


_NAMES, _UNITS = _read_table()


@lru_cache(maxsize=4096)
def read_unit(words: tuple[str, ...]) -> tuple[str | None, int]:
    """Return the unit that words behind a number begin with, by its first name, and how many of the words name it."""
    if not words:
        return None, 0
    first = words[0].replace("μ", "µ")
    second = words[1] if len(words) > 1 else ""
    low = second.lower()
    if (first + low) in {"percent", "percentagepoints", "percentagepoint"} and low:
        return ("%" if low == "cent" else "pp"), 2
    if first.lower() in _POWERS and (unit := _name(second)):
        return unit + _POWERS[first.lower()], 2
    unit = _name(first)
    if unit == "°" and (scale := _name(second) or _name("°" + second)) in {"°C", "°F"}:
        return scale, 2
    if unit and low == "per" and (per := _PER.get("".join(words[2:3]))):
        return unit + per, 3
    return unit, 1 if unit else 0


def _name(word: str) -> str | None:
    return _NAMES.get(word) or (_NAMES.get(word.lower()) if len(word) > _LEAST_WORD else None)


def in_base(value: float, unit: str) -> tuple[str, float] | None:
    """Return a number's dimension and value in the dimension's base unit; None for a unit that converts into no other.

    Dimensions of one unit, currencies among them, convert into nothing.
    """
    if unit not in _UNITS:
        return None
    dimension, factor = _UNITS[unit]
    if dimension != "temperature":
        return dimension, value * factor
    return dimension, {"°C": value, "°F": (value - 32) / 1.8, "K": value - 273.15}[unit]


def from_base(base: float, unit: str) -> float:
    """Return the number of `unit` that a value in the base of its dimension is."""
    dimension, factor = _UNITS[unit]
    if dimension != "temperature":
        return base / factor
    return {"°C": base, "°F": base * 1.8 + 32, "K": base + 273.15}[unit]


_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)\b"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_GAP = "[ \u00a0\u202f\u2009]"
_WORD = "[A-Za-z%\u00b0\u00b2\u00b3\u00b5\u03bc\u20ac\u00a3]{1,16}(?:/[a-z]{1,4})?[23]?(?!\\d)"
_REST = (
    r"(?:[-/]\d{1,2}[-/]\d{1,4}(?:[T ]\d\d:\d\d)?|:\d\d(?!\d)"
    rf"|(?:st|nd|rd|th)?(?: of)?[ -]{_MONTH}\.?(?:,? \d{{4}}(?!\d))?"
    rf"|(?:{_GAP}|-)?{_WORD}(?: {_WORD}){{0,3}})?"
)
QUANTITY = (
    rf"[\d$\u20ac\u00a3\u00a5](?<!\w.)(?:(?<!\[.)|(?!\d?\d?\]))(?:(?<!\d){_GAP})?[\d.,\u00a0\u202f]{{0,40}}{_REST}"
)
"""A number with what stands behind it, a unit's words or the rest of a date; it may turn out to be nothing."""
DATE_IN_WORDS = rf"{_MONTH}\.? (?:\d{{1,2}}(?!\d)(?:st|nd|rd|th)?(?:,? \d{{4}}(?!\d))?|\d{{4}}(?!\d))"
"""May 12, 2024; May 12; May 2024."""

_DATES = (
    re.compile(r"(?P<y>\d{4})([-/])(?P<m>\d\d?)\2(?P<d>\d\d?)(?!\d)(?:[T ](?P<clock>\d\d:\d\d))?"),
    re.compile(rf"(?P<d>\d\d?)(?:st|nd|rd|th)?(?: of)?[ -](?P<m>{_MONTH})(?:\.(?=,? \d))?(?:,? (?P<y>\d{{4}})(?!\d))?"),
    re.compile(rf"(?P<m>{_MONTH})\.? (?P<d>\d\d?)(?!\d)(?:st|nd|rd|th)?(?:,? (?P<y>\d{{4}})(?!\d))?"),
    re.compile(rf"(?P<m>{_MONTH})\.? (?P<y>\d{{4}})"),
)
_EITHER_WAY = re.compile(r"(\d\d?)([-/.])(\d\d?)\2(\d{4})(?!\d)")
_CLOCK = re.compile(r"(\d\d?):(\d\d)")
_YEAR = re.compile(r"(?:1\d|20)\d\d")
_DECADE = re.compile(r"s\b")
_MARKS = ".,\u00a0\u202f"
_NUMBER = re.compile(rf"([$\u20ac\u00a3\u00a5]?){_GAP}?(\d[\d.,\u00a0\u202f]*)")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:[\u00a0\u202f]\d{3})+(?:[.,]\d+)?")
_PLAIN = re.compile(r"\d+(?:[.,]\d+)?")
_BEHIND = re.compile(rf"(?:{_GAP}|-)?({_WORD})")
_SCALES = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12, "mn": 1e6, "m": 1e6, "bn": 1e9}
"""Right behind a number: 5M and 5bn, but not 5 M; m only of money."""
_SCALE_WORDS = {"thousand": 1e3, "million": 1e6, "bn": 1e9, "billion": 1e9, "trillion": 1e12}
_NO_NOUNS = frozenset("a an and are as at but by for from in is of on or per than that the to vs was were with".split())

Day = tuple[int | None, int | None, int | None]
"""Year, month, day; None for what is not said. Month 0: the decade that begins with the year."""


@dataclass(frozen=True)
class Quantity:
    """A number with its unit, or the days or the time of day that a text means."""

    length: int
    """How many characters of the text it takes."""
    value: float = math.nan
    decimals: int = 0
    """Places behind the point of the whole number: -5 of 1.2 million."""
    digits: int = 0
    """Digits as written."""
    unit: str | None = None
    noun: bool = False
    """Whether a word stands behind it that is no unit, and may say what it counts."""
    days: tuple[Day, ...] = ()
    """Two for 5/6/2024, which may mean either."""
    clock: str | None = None


@lru_cache(maxsize=8192)
def read_quantity(text: str) -> Quantity | None:
    """Return what a match of QUANTITY or DATE_IN_WORDS is; None for what is no number, or in no usual form."""
    if found := next(filter(None, (form.match(text) for form in _DATES)), None):
        said = found.groupdict()
        month = int(said["m"]) if said["m"].isdigit() else _MONTHS.index(said["m"][:3]) + 1
        day: Day = (int(said["y"]) if said["y"] else None, month, int(said["d"]) if said.get("d") else None)
        return Quantity(found.end(), days=(day,), clock=said.get("clock")) if _is_day(day) else None
    if found := _EITHER_WAY.match(text):
        first, second, year = int(found[1]), int(found[3]), int(found[4])
        both = (year, second, first), (year, first, second)
        days = tuple(dict.fromkeys(day for day in both if _is_day(day)))
        return Quantity(found.end(), days=days) if days else None
    if found := _CLOCK.match(text):
        return Quantity(found.end(), clock=found[0].zfill(5))
    return _read_number(text)


def _is_day(day: Day) -> bool:
    return 1 <= (day[1] or 1) <= 12 and 1 <= (day[2] or 1) <= 31


def _read_number(text: str) -> Quantity | None:
    number = _NUMBER.match(text)
    written = number[2].rstrip(_MARKS) if number else ""
    plain = _plain_digits(written)
    if number is None or plain is None:
        return None
    currency, end = number[1], number.start(2) + len(written)
    is_year = not currency and bool(_YEAR.fullmatch(written))
    if is_year and _DECADE.match(text, end):
        return Quantity(end + 1, days=((int(written), 0, None),))
    scale, end = _scale(text, end, of_money=bool(currency))
    words, attached = _words_behind(text, end)
    unit, used = read_unit(tuple(word[1] for word in words))
    if currency:
        unit, used = currency, 0
    elif attached in {"C", "F"}:
        unit, used = f"\u00b0{attached}", 1
    elif attached and not unit and scale == 1.0 and attached not in {"st", "nd", "rd", "th", "x"}:
        return None  # 3f2a
    is_year = is_year and scale == 1.0 and not attached
    if is_year and used and len(words[0][1]) == 1:
        unit, used = None, 0  # in 1936 A. Turing
    return Quantity(
        length=words[used - 1].end() if used else end,
        value=float(f"{float(plain) * scale:.12g}"),
        decimals=len(plain.partition(".")[2]) - round(math.log10(scale)),
        digits=sum(map(str.isdigit, written)),
        unit=unit,
        noun=bool(words) and not unit and words[0][1].lower() not in _NO_NOUNS,
        days=((int(written), None, None),) if is_year and not unit else (),
    )


def _plain_digits(written: str) -> str | None:
    """Return a number as Python reads it; None for one with several points."""
    if _GROUPED.fullmatch(written):
        by_comma = "," in written[:-3] and not set(written) & set("\u00a0\u202f")
        plain = written.replace(",", "") if by_comma else written.replace("\u00a0", "").replace("\u202f", "")
        return plain.replace(",", ".")
    return written.replace(",", ".") if _PLAIN.fullmatch(written) else None


def _scale(text: str, end: int, *, of_money: bool) -> tuple[float, int]:
    """Return by how much the word behind a number, such as million, makes it larger, and where that word ends."""
    word = _BEHIND.match(text, end)
    if word is None:
        return 1.0, end
    scale = _SCALES.get(word[1], 1.0) if word.start(1) == end and (word[1] != "m" or of_money) else 1.0
    scale = _SCALE_WORDS.get(word[1].lower(), 1.0) if scale == 1.0 else scale
    return scale, word.end() if scale != 1.0 else end


def _words_behind(text: str, end: int) -> tuple[list[re.Match[str]], str]:
    """Return the words behind a number, and the first of them if nothing parts it from the number."""
    words, at = list[re.Match[str]](), end
    while (word := _BEHIND.match(text, at)) and (not words or text[at] == " "):
        words.append(word)
        at = word.end()
    return words, words[0][1] if words and words[0].start(1) == end else ""
