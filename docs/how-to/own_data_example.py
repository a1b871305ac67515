"""Writes a small corpus of invented weather reports: `python docs/how-to/own_data_example.py FILE`.

Each line of FILE is a JSON object with one text, the form that `data.source: local` reads.
"""

import json
import random
import sys
from pathlib import Path

COUNT = 1500
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
TIMES = ("morning", "afternoon", "evening", "night")
PLACES = ("the coast", "the valley", "the old town", "the high moor", "the islands", "the lake")
SKIES = ("rain", "snow", "fog", "hail", "sunshine", "drizzle")
WINDS = ("a light breeze", "a strong wind", "no wind at all", "a cold gale")
ADVICE = {
    "rain": "take an umbrella",
    "snow": "wear warm boots",
    "fog": "drive slowly",
    "hail": "stay indoors",
    "sunshine": "drink enough water",
    "drizzle": "bring a light coat",
}


def report(draw: random.Random) -> str:
    """One report; what it advises depends on the sky."""
    day = draw.choice(DAYS)
    place = draw.choice(PLACES)
    first, second = draw.sample(SKIES, 2)
    opening = f"On {day} {draw.choice(TIMES)} there will be {first} over {place}"
    change = f"Later the {first} turns to {second}, with {draw.choice(WINDS)} from the west."
    warmth = f"It will be {draw.randint(0, 30)} degrees."
    advice = f"If you visit {place}, {ADVICE[first]}, and in the {second} {ADVICE[second]}."
    return f"{opening}. {change} {warmth} {advice}"


def main() -> None:
    draw = random.Random(1)
    path = Path(sys.argv[1])
    lines = [json.dumps({"text": report(draw)}) for _ in range(COUNT)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{path}: {len(lines):,} texts")


if __name__ == "__main__":
    main()
