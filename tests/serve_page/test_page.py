"""Every part of the page, by mouse and by keyboard, in a real browser.

The tests learn from the server what there is to see, so any server can be looked at:
SDGAR_PAGE_URL is its address. SDGAR_SCREENSHOTS is a folder for pictures of what they saw.
"""

from __future__ import annotations

import itertools
import re

import pytest

from .conftest import LOOKS, Facts
from .page_steps import NAMES, axe_finds_nothing, changed, named, names, settled, spelled

PARTS = ("explore", "user", "try", "item", "model", "service")


def address(part: str, facts: Facts) -> str:
    """Write the address of a part with something in it."""
    items = "&".join(f"i={spelled(one['item'])}" for one in facts.popular[:3])
    return {
        "explore": "#/",
        "user": f"#/user/{spelled(facts.user['id'])}",
        "try": f"#/try?{items}",
        "item": f"#/item/{spelled(facts.item['item'])}",
        "model": "#/model",
        "service": "#/service",
    }[part]


# Parts share their colours: all are looked at in the narrow and dark look, and some in the light.
LOOKED_AT = {*itertools.product(PARTS, ["phone-dark"]), ("explore", "light"), ("user", "light")}


@pytest.mark.parametrize(
    ("part", "look"),
    [
        pytest.param(*one, marks=() if one in LOOKED_AT else pytest.mark.exhaustive)
        for one in itertools.product(PARTS, LOOKS)
    ],
)
def test_a_part_has_no_violation_of_accessibility(part, look, visit, page_url, facts, shot):
    page = visit(page_url + address(part, facts), look)
    settled(page)
    for summary in page.locator("main summary").all()[:4]:
        if not summary.evaluate("(one) => one.parentElement.open"):
            summary.click()
    page.mouse.move(0, 0)
    settled(page)
    shot(page, f"{part}-{look}")
    axe_finds_nothing(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("h1").count() == 1
    assert page.title().endswith("· sdgar")


def test_the_search_is_used_by_keyboard(visit, page_url, facts, shot):
    page = visit(page_url)
    settled(page)
    page.keyboard.press("/")
    field = page.get_by_role("combobox", name="Search users and items")
    assert field.evaluate("(one) => one === document.activeElement")
    page.keyboard.type(named(facts.user))
    page.wait_for_selector("[role=option]")
    assert field.get_attribute("aria-expanded") == "true"
    page.keyboard.press("ArrowDown")
    chosen = page.locator("[role=option][aria-selected=true]")
    assert field.get_attribute("aria-activedescendant") == chosen.get_attribute("id")
    assert named(facts.user) in chosen.text_content()
    shot(page, "search-light")
    page.keyboard.press("ArrowUp")
    assert page.locator("[role=option]").last.get_attribute("aria-selected") == "true"
    page.keyboard.press("Escape")
    assert field.get_attribute("aria-expanded") == "false"
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("[role=option]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("#/user/"))
    page.get_by_role("heading", level=1, name=named(facts.user), exact=True).wait_for()
    assert page.evaluate("document.activeElement.tagName") == "H1"


def test_the_search_is_used_by_mouse(visit, page_url, facts):
    page = visit(page_url + "#/model")
    settled(page)
    page.get_by_role("combobox").fill(named(facts.item))
    items = page.get_by_role("group", name="Items")
    items.get_by_role("option").filter(has_text=named(facts.item)).first.click()
    page.wait_for_url(re.compile("#/item/"))
    page.get_by_role("heading", level=1, name=named(facts.item), exact=True).wait_for()
    page.get_by_role("combobox").fill("there is no such thing")
    page.get_by_text("Nothing begins with or is named").first.wait_for()


def test_a_user_has_history_and_recommendations_side_by_side(visit, page_url, facts):
    page = visit(page_url + address("user", facts))
    settled(page)
    history = facts.history(facts.user["id"])["items"]
    shown = page.locator(".history .past a").all_text_contents()
    assert shown == [named(one) for one in reversed(history)][:100]
    assert len(names(page)) == 10
    assert page.locator(".rank").first.text_content() == "1"
    assert "model" in page.locator(".basis").text_content().lower()
    left, right = (page.locator(one).bounding_box() for one in (".side", ".panel"))
    assert left["x"] + left["width"] < right["x"]
    assert abs(left["y"] - right["y"]) < 2


def test_reasons_open_by_mouse_and_by_keyboard(visit, page_url, facts, shot):
    page = visit(page_url + address("user", facts))
    settled(page)
    history = {named(one) for one in facts.history(facts.user["id"])["items"]}
    first = page.locator("details.why").nth(0)
    assert "Because of" in first.locator("summary").text_content()
    first.locator("summary").click()
    first.locator(".bar .weights").first.wait_for()
    assert set(first.locator(".reason-name").all_text_contents()) <= history
    assert first.locator(".bar .weights").count() == first.locator(".reasons li").count()
    assert "by weights between items, exact" in first.text_content()
    assert "by vectors" in first.text_content()
    assert "of the score" in first.text_content()
    second = page.locator("details.why").nth(1).locator("summary")
    second.focus()
    page.keyboard.press("Enter")
    page.locator("details.why").nth(1).locator(".reasons li").first.wait_for()
    assert page.locator(".past.speaks").count() > 0
    shot(page, "reasons-light")


def test_options_change_the_list_by_keyboard(visit, page_url, facts, shot):
    counted = (
        "() => { window.glides = 0; const old = Element.prototype.animate; "
        "Element.prototype.animate = function (...all) "
        "{ window.glides += 1; return old.apply(this, all); }; }"
    )
    page = visit(page_url + address("user", facts))
    settled(page)
    page.evaluate(counted)
    before = names(page)
    page.get_by_label("Popularity").focus()
    page.keyboard.press("End")
    after = changed(page, before)
    assert "popularity=1" in page.url
    assert page.get_by_label("Popularity").get_attribute("aria-valuetext").endswith("by 1")
    moved = page.locator(".moved")
    assert moved.count() == sum(
        n >= len(before) or before[n] != name for n, name in enumerate(after)
    )
    assert page.evaluate("glides") > 0
    page.locator("#live", has_text="moved or new").wait_for(state="attached")
    shot(page, "options-light")
    page.get_by_label("Length").focus()
    page.keyboard.press("ArrowRight")
    assert len(changed(page, after)) == 11
    page.reload()
    settled(page)
    assert len(names(page)) == 11
    page.get_by_role("button", name="Back to rest").click()
    assert changed(page, names(page)) == before
    assert "popularity" not in page.url


def test_categories_are_left_out_by_mouse(visit, page_url, facts):
    page = visit(page_url + address("user", facts))
    settled(page)
    if not page.locator(".entry .tag").count():
        pytest.skip("the items of this server have no categories")
    name = page.locator(".entry .tag:not(.rule)").first.text_content()
    before = names(page)
    chip = page.locator(".chip").filter(has=page.get_by_label(re.compile(f"^{re.escape(name)}")))
    chip.click()
    changed(page, before)
    assert name not in page.locator(".entry .tag").all_text_contents()
    assert "without=" in page.url
    chip.click()
    assert changed(page, names(page)) == before


@pytest.mark.exhaustive
def test_options_open_on_a_phone(visit, page_url, facts):
    page = visit(page_url + address("user", facts), "phone")
    settled(page)
    slider = page.get_by_label("Diversity")
    assert not slider.is_visible()
    page.locator(".dials > summary").focus()
    page.keyboard.press("Enter")
    slider.wait_for()
    if facts.get("categories")["categories"]:
        page.locator(".leave-out .chip").first.wait_for()


@pytest.mark.exhaustive
def test_diversity_is_dragged(visit, page_url, facts):
    page = visit(page_url + address("user", facts))
    settled(page)
    before = names(page)
    box = page.get_by_label("Diversity").bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 10, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, y, steps=8)
    page.mouse.up()
    changed(page, before)
    assert "diversity=" in page.url


@pytest.mark.exhaustive
def test_nothing_glides_if_one_wants_less_motion(visit, page_url, facts):
    page = visit(page_url + address("user", facts), reduced_motion="reduce")
    settled(page)
    page.evaluate("() => { Element.prototype.animate = () => { throw new Error('it moves'); }; }")
    before = names(page)
    page.get_by_label("Popularity").focus()
    page.keyboard.press("End")
    changed(page, before)


def test_a_history_is_clicked_together(visit, page_url, facts, shot):
    page = visit(page_url)
    settled(page)
    page.get_by_role("link", name="Try a history").click()
    settled(page)
    shot(page, "try-empty-light")
    page.locator(".tile").first.click()
    page.wait_for_selector(NAMES)
    own = page.locator(".own .past a")
    assert own.all_text_contents() == [named(facts.popular[0])]
    before = names(page)
    added = before[0]
    page.locator(".ranked .entry").first.get_by_role("button").click()
    after = changed(page, before)
    assert own.all_text_contents() == [named(facts.popular[0]), added]
    assert added not in after
    assert "Folded in from this history" in page.locator(".basis").text_content()
    page.locator(".own .past").first.get_by_role("button", name="Remove").click()
    changed(page, after)
    assert own.all_text_contents() == [added]
    page.get_by_role("button", name="Undo").click()
    assert changed(page, names(page)) == after
    page.reload()
    settled(page)
    assert own.all_text_contents() == [named(facts.popular[0]), added]


def test_a_history_is_written_by_keyboard(visit, page_url, facts):
    page = visit(page_url + "#/try", refusals=True)
    settled(page)
    own = page.locator(".own .past a")
    field = page.get_by_role("combobox", name="Add an item")
    for one in facts.popular[:2]:
        field.focus()
        page.keyboard.type(named(one))
        page.wait_for_selector(".side [role=option]")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_selector(NAMES)
    assert own.all_text_contents() == [named(one) for one in facts.popular[:2]]
    settled(page)
    before = names(page)
    page.locator(".own .past button").last.focus()
    page.keyboard.press("Delete")
    changed(page, before)
    assert own.all_text_contents() == [named(facts.popular[0])]
    assert page.evaluate("document.activeElement.closest('.past') !== null")
    page.keyboard.press("Control+z")
    assert changed(page, names(page)) == before
    page.get_by_text("Paste several").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type(f"{facts.popular[2]['item']}\nno-such-item")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("Not found: no-such-item.").wait_for()
    assert own.all_text_contents() == [named(one) for one in facts.popular[:3]]
    page.get_by_role("button", name="Clear").click()
    page.get_by_text("Begin with something you know").wait_for()


def test_an_item_has_facts_and_similar_items(visit, page_url, facts):
    page = visit(page_url + address("item", facts), refusals=True)
    settled(page)
    assert str(facts.item["item"]) in page.locator(".pairs").text_content()
    similar = names(page)
    assert len(similar) == 12
    assert named(facts.item) not in similar
    page.get_by_label("Best way").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_text("Compared by their vectors").or_(page.locator(".notice.bad")).first.wait_for()
    page.get_by_label("Weights", exact=True).click()
    said = page.get_by_text("Compared by the weights").or_(page.locator(".notice.bad"))
    said.first.wait_for()
    page.get_by_label("Best way").click()
    page.locator(NAMES).first.wait_for()
    page.locator(NAMES).first.click()
    page.get_by_role("heading", level=1, name=similar[0], exact=True).wait_for()
    page.go_back()
    page.get_by_role("heading", level=1, name=named(facts.item), exact=True).wait_for()
    page.get_by_role("link", name="Start a history with it").click()
    page.wait_for_selector(NAMES)
    assert page.locator(".own .past a").all_text_contents() == [named(facts.item)]


def test_the_model_says_what_it_is(visit, page_url, facts):
    page = visit(page_url)
    page.get_by_role("link", name="Model").click()
    settled(page)
    model = facts.get("model")
    text = page.locator("main").text_content()
    assert model["version"] in text
    assert f"{model['data']['users']:,}" in text
    if model.get("metrics"):
        assert "Most popular" in text
        assert "NDCG@50" in text
    if len([one for one in model.get("curve") or [] if one.get("metric") is not None]) > 1:
        assert "best at" in page.get_by_role("img", name=re.compile("validation")).get_attribute(
            "aria-label"
        )
        page.get_by_text("The numbers as a table").click()
        assert page.locator(".behind tbody tr").count() == len(model["curve"])
    for title in ("Index", "What it can do"):
        assert page.get_by_role("heading", name=title).is_visible()


def test_the_service_says_how_it_is(visit, page_url):
    page = visit(page_url)
    settled(page)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the link that skips the header
    assert page.evaluate("document.activeElement.id") == "main"
    page.get_by_role("link", name="Service").focus()
    page.keyboard.press("Enter")
    settled(page)
    text = page.locator("main").text_content()
    for words in ("Requests a minute", "Median latency", "99th percentile", "Feedback an hour"):
        assert words in text
    assert page.locator(".chart svg[role=img]").count() == 2


@pytest.mark.exhaustive
def test_colours_follow_the_system_until_one_chooses(visit, page_url, facts):
    page = visit(page_url + "#/model", "dark")
    settled(page)
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.emulate_media(color_scheme="light")
    light = page.evaluate(ground)
    assert dark != light
    page.get_by_role("button", name="Use dark colours").click()
    assert page.evaluate(ground) == dark
    page.reload()
    assert page.evaluate(ground) == dark
    page.get_by_role("button", name="Use light colours").click()
    assert page.evaluate(ground) == light


def test_an_address_that_names_nothing_says_so(visit, page_url):
    page = visit(page_url + "#/nowhere/%zz")
    page.get_by_role("heading", name="There is nothing at this address").wait_for()
    page.get_by_role("link", name="To the front").click()
    page.get_by_role("heading", name="Whose list would you like to see?").wait_for()
