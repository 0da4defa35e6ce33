"""The names by which people call columns of users, items, times, weights, ratings and kinds."""

from __future__ import annotations

import re
from typing import Literal

Role = Literal["user", "item", "weight", "time", "rating", "kind"]
"""The part that a column plays."""

# Names are compared without case, spaces, underscores and a `:type` suffix.
_KNOWN_NAMES: dict[Role, str] = {
    "user": """
        user userid uid customer customerid custid client clientid visitor visitorid member
        memberid account accountid session sessionid reviewer reviewerid buyer buyerid person
        personid profile profileid viewer viewerid listener listenerid household householdid
        householdkey""",
    "item": """
        item itemid iid product productid sku skuid asin movie movieid film filmid book bookid
        song songid track trackid artist artistid article articleid business businessid location
        locationid venue venueid poi poiid game gameid app appid video videoid news newsid
        recipe recipeid anime animeid stockcode isbn gmapid""",
    "time": """
        time timestamp ts date datetime at eventtime eventtimestamp createdat occurredat
        unixreviewtime unixtime utctime""",
    "weight": """
        weight count plays playcount nplays listens clicks views purchases hours hoursplayed
        quantity qty frequency confidence""",
    "rating": """
        rating ratings rate score stars star overall overallrating reviewoverall starrating
        userrating userratings bookrating movierating filmrating itemrating productrating
        gamerating songrating animerating reciperating reviewrating reviewscore reviewstars
        reviewerrating customerrating myrating myscore userscore userstars ratingscore
        ratingvalue ratingstars givenrating recommended isrecommended votedup liked thumbsup""",
    "kind": "kind eventkind eventtype",
}
KNOWN = {role: frozenset(names.split()) for role, names in _KNOWN_NAMES.items()}

TRUE_OR_FALSE = frozenset(("recommended", "isrecommended", "votedup", "liked", "thumbsup"))
"""The names of ratings that are mostly true or false, which count as 1 and 0."""


def squash(name: str) -> str:
    """Return a name without case, spaces, underscores and a `:type` suffix."""
    return re.sub(r"[\W_]", "", name.split(":")[0]).lower()
