"""Short business mails and the order that each of them states, as an object of configs/grammars/order.json."""

from typing import Any

from configs.datasets.recipes.draw import Draw

ROWS = 150
SEED = 20_260_102

CUSTOMERS = (
    "Harbour Books", "Linden Bakery", "Alpine Cycles", "Copper Kettle", "Northside Clinic", "Juniper Florists",
    "Bluebird Toys", "Granite Works", "Willow Hotel", "Orchard School", "Falcon Garage", "Meadow Dairy",
    "Sunrise Cafe", "Pinewood Studio", "Riverside Gym", "Amber Lighting", "Summit Travel", "Coral Print",
)  # fmt: skip
CITIES = (
    "Oslo", "Porto", "Vienna", "Leeds", "Lyon", "Turin", "Utrecht", "Prague", "Dublin", "Malaga", "Bergen", "Basel",
    "Ghent", "Krakow", "Tampere",
)  # fmt: skip
CENTS = {
    "desk lamp": 2450, "office chair": 8900, "paper box": 1275, "blue folder": 320, "coffee mug": 675,
    "wall clock": 1890, "glass jar": 410, "door mat": 1540, "tool set": 4725, "water pump": 6310,
    "garden hose": 2280, "oak shelf": 5600, "tea pot": 1995, "wool blanket": 3380, "steel bucket": 1150,
    "rope ladder": 2760, "plant pot": 840, "tin box": 505,
}  # fmt: skip
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip

MAILS = {
    "order": (
        "Hello, this is {customer} in {city}. On {date} we would like to order {items}. The total should be {total}.",
        "Purchase order from {customer}, {city}, placed on {date}: {items}. Order value {total}.",
        "Good morning! Please send {items} to {customer} in {city}. We ordered on {date} for {total} altogether.",
        "Dear team, {customer} of {city} orders {items}. Order date: {date}. Sum: {total}. Many thanks.",
    ),
    "invoice": (
        "Invoice dated {date} for {customer}, {city}. Billed: {items}. Amount due: {total}.",
        "Dear {customer}, please find our invoice of {date} for {items}, sent to you in {city}. Please pay {total}.",
        "We have billed {customer} ({city}) on {date}. The invoice lists {items} and comes to {total}.",
        "Payment reminder: the invoice from {date} over {total} to {customer} in {city} is open. It covers {items}.",
    ),
    "shipment": (
        "Your parcel has left our warehouse: {items} for {customer} in {city}. Shipped on {date}, goods worth {total}.",
        "Shipment notice. Recipient: {customer}, {city}. Contents: {items}. Sent: {date}. Declared value: {total}.",
        "On {date} the carrier picked up a shipment of {items}. It goes to {customer}, {city}, insured for {total}.",
        "To {customer}, {city}: we shipped {items} on {date}. The value of the shipment is {total}.",
    ),
}


def rows() -> list[dict[str, Any]]:
    """The dataset's rows: the three kinds of mail equally often, in a drawn order, no text twice."""
    draw = Draw(seed=SEED)
    seen: set[str] = set()
    result: list[dict[str, Any]] = []
    order = [kind for _ in range(ROWS // len(MAILS)) for kind in draw.shuffled(tuple(MAILS))]
    for number, kind in enumerate(order, start=1):
        text, stated = _mail(kind=kind, draw=draw)
        while text in seen:
            text, stated = _mail(kind=kind, draw=draw)
        seen.add(text)
        result.append({"id": f"extract-{number:03d}", "text": text, "order": stated})
    return result


def _mail(*, kind: str, draw: Draw) -> tuple[str, dict[str, Any]]:
    year, month, day = draw.between(2023, 2026), draw.between(1, 12), draw.between(1, 28)
    items: list[dict[str, Any]] = [
        {"name": name, "quantity": draw.between(1, 12)}
        for name in draw.several(tuple(CENTS), draw.pick((1, 1, 2, 2, 3)))
    ]
    cents = sum(CENTS[item["name"]] * item["quantity"] for item in items)
    customer, city = draw.pick(CUSTOMERS), draw.pick(CITIES)
    dates = (
        f"{day} {MONTHS[month - 1]} {year}",
        f"{MONTHS[month - 1]} {day}, {year}",
        f"{year}-{month:02d}-{day:02d}",
    )
    totals = (f"{cents // 100}.{cents % 100:02d} EUR", f"EUR {cents // 100}.{cents % 100:02d}")
    text = draw.pick(MAILS[kind]).format(
        customer=customer, city=city, date=draw.pick(dates), items=_listed(items), total=draw.pick(totals)
    )
    return text, {
        "kind": kind,
        "date": f"{year}-{month:02d}-{day:02d}",
        "customer": {"name": customer, "city": city},
        "items": items,
        "total": cents / 100,
    }


def _listed(items: list[dict[str, Any]]) -> str:
    parts = [f"{item['quantity']} x {item['name']}" for item in items]
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
