"""Units of numbers by name: which are the same, and which convert into each other."""

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
