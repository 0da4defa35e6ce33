"""The page with servers that are slow, refuse or fail, and with ids of all kinds."""

from __future__ import annotations

import pytest

from sdgar.serve.problems import Refused

from .conftest import GREAT, HOSTILE
from .page_steps import NAMES, axe_finds_nothing, changed, names, settled, spelled

SECRET = "sessionStorage.getItem('sdgar.key')"


def test_a_key_is_requested_and_kept_in_the_tab_only(keys, server, visit, shot):
    page = visit(server().url + "/#/user/3", refusals=True)
    dialog = page.get_by_role("dialog", name="A key, please")
    dialog.wait_for()
    shot(page, "key-light")
    axe_finds_nothing(page)
    page.keyboard.type("sdgar_wrong")
    page.keyboard.press("Enter")
    page.get_by_text("The server did not accept this key").wait_for()
    page.get_by_label("Key", exact=True).fill(keys["write"])
    page.get_by_role("button", name="Use this key").click()
    page.wait_for_selector(NAMES)
    assert page.evaluate(SECRET) == keys["write"]
    assert page.evaluate("JSON.stringify(localStorage) + document.cookie") == "{}"
    assert keys["write"] not in page.url
    page.reload()
    page.wait_for_selector(NAMES)
    assert not dialog.is_visible()
    page.get_by_role("button", name="Change the key").click()
    dialog.wait_for()
    page.keyboard.press("Escape")
    assert page.evaluate(SECRET) == keys["write"]


@pytest.mark.exhaustive
def test_without_a_key_there_is_a_sentence(keys, server, visit):
    page = visit(server().url + "/#/model", refusals=True)
    page.get_by_role("button", name="Not now").click()
    assert not page.get_by_role("dialog").is_visible()
    page.get_by_role("alert").get_by_text("answers only to").wait_for()
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("dialog").wait_for()


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("recommend", "#/user/3"), ("similar", "#/item/3"), ("model", "#/model"), ("popular", "#/"),
        pytest.param("history", "#/user/3", marks=pytest.mark.exhaustive),
        pytest.param("items/3", "#/item/3", marks=pytest.mark.exhaustive),
        pytest.param("service", "#/service", marks=pytest.mark.exhaustive),
    ],
)  # fmt: skip
def test_an_error_is_a_sentence_and_can_be_tried_again(path, where, server, visit, shot):
    serving = server()
    serving.faults[path] = Refused(503, "The server is busy. Ask again soon.")
    page = visit(f"{serving.url}/{where}", refusals=True)
    alert = page.get_by_role("alert")
    alert.get_by_text("The server is busy. Ask again soon.").wait_for()
    settled(page)
    shot(page, f"error-{path.split('/')[0]}-light")
    axe_finds_nothing(page)
    del serving.faults[path]
    alert.get_by_role("button", name="Try again").click()
    alert.wait_for(state="detached")


@pytest.mark.exhaustive
def test_a_server_that_is_gone_is_named(server, visit):
    serving = server()
    page = visit(serving.url, refusals=True)
    settled(page)
    page.route("**/v1/**", lambda route: route.abort())
    page.get_by_role("link", name="Model").click()
    page.get_by_text("The server does not answer.").wait_for()


@pytest.mark.exhaustive
def test_an_answer_that_comes_late_is_dropped(server, visit):
    serving = server()
    page = visit(serving.url + "/#/user/3")
    settled(page)
    before = names(page)
    serving.delays["recommend"] = [1.5, 0.0]
    page.get_by_label("Popularity").focus()
    page.keyboard.press("End")
    page.wait_for_timeout(400)  # it is before_moves for after a rest
    assert serving.bodies("recommend")[-1]["popularity"] == 1
    page.keyboard.press("Home")
    after = changed(page, before)
    assert serving.bodies("recommend")[-1]["popularity"] == -1
    page.wait_for_timeout(1500)
    assert names(page) == after


@pytest.mark.exhaustive
def test_quick_moves_send_one_request(server, visit):
    serving = server()
    page = visit(serving.url + "/#/user/3")
    settled(page)
    before_moves = len(serving.bodies("recommend"))
    before = names(page)
    page.get_by_label("Diversity").focus()
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    changed(page, before)
    assert len(serving.bodies("recommend")) <= before_moves + 2
    assert serving.bodies("recommend")[-1]["diversity"] == 0.4


@pytest.mark.exhaustive
def test_bones_hold_the_place_of_a_slow_list(server, visit, shot):
    page = visit(server(delay=1.0).url + "/#/user/3")
    page.locator(".skeleton").first.wait_for()
    shot(page, "loading-light")
    settled(page)
    assert len(names(page)) == 10


def test_an_unknown_user_gets_popular_items_and_a_note(server, visit, shot):
    page = visit(server().url + "/#/user/nobody", refusals=True)
    settled(page)
    assert "nothing of this person" in page.locator(".basis").text_content()
    assert "No history" in page.locator(".side").text_content()
    assert page.locator(".why").count() == 0
    shot(page, "unknown-light")
    axe_finds_nothing(page)


@pytest.mark.exhaustive
def test_items_that_are_unknown_are_marked(server, visit):
    page = visit(server().url + "/#/try?i=3&i=nothing", refusals=True)
    settled(page)
    assert "does not know nothing" in page.locator(".remark").text_content()
    assert "unknown to the model" in page.locator(".own .past").last.text_content()


@pytest.mark.parametrize(
    "user",
    [
        pytest.param(17, marks=pytest.mark.exhaustive),
        pytest.param("17", marks=pytest.mark.exhaustive),
        HOSTILE,
    ],
    ids=["integer", "digits", "hostile"],
)
@pytest.mark.exhaustive
def test_ids_of_users_go_back_as_they_are(user, server, visit):
    serving = server("integers" if isinstance(user, int) else "texts")
    page = visit(serving.url + f"/#/user/{spelled(user)}")
    settled(page)
    assert serving.bodies("recommend")[-1]["users"] == [user]
    assert type(serving.bodies("recommend")[-1]["users"][0]) is type(user)
    assert page.locator("h1").text_content() == str(user)
    page.get_by_role("button", name="Like: ").first.click()
    page.get_by_text("Folded in from feedback").wait_for()
    [event] = serving.bodies("feedback")[-1]["events"]
    assert event["user"] == user
    assert type(event["user"]) is type(user)


@pytest.mark.parametrize(
    "item", [17, "17", HOSTILE, GREAT, ".."], ids=["integer", "digits", "hostile", "great", "dots"]
)
def test_ids_of_items_go_back_as_they_are(item, server, visit):
    serving = server("integers" if isinstance(item, int) else "texts")
    page = visit(serving.url + f"/#/item/{spelled(item)}")
    settled(page)
    assert serving.bodies("similar")[-1]["items"] == [item]
    assert type(serving.bodies("similar")[-1]["items"][0]) is type(item)
    page.get_by_role("link", name="Start a history with it").click()
    page.wait_for_selector(NAMES)
    settled(page)
    assert serving.bodies("recommend")[-1]["histories"] == [{"items": [item]}]
    page.reload()
    page.wait_for_selector(NAMES)
    assert serving.bodies("recommend")[-1]["histories"] == [{"items": [item]}]
    assert page.locator("main img[onerror]").count() == 0


@pytest.mark.exhaustive
def test_an_id_that_looks_like_html_is_found_and_shown_as_text(server, visit):
    page = visit(server("texts").url)
    settled(page)
    page.get_by_role("combobox").fill("a/b")
    page.get_by_role("option").filter(has_text="<img src=x").first.click()
    page.get_by_role("heading", level=1, name=HOSTILE).wait_for()


def test_feedback_changes_the_list(server, visit, shot):
    serving = server()
    page = visit(serving.url + "/#/user/3")
    settled(page)
    before = names(page)
    page.locator(".entry").first.get_by_role("button", name="Not for me").click()
    after = changed(page, before)
    assert before[0] not in after
    page.locator(".entry").first.get_by_role("button", name="Like").focus()
    page.keyboard.press("Enter")
    changed(page, after)
    assert after[0] in page.locator(".past", has_text="since training").first.text_content()
    events = [event for body in serving.bodies("feedback") for event in body["events"]]
    assert [event["kind"] for event in events] == ["dislike", "like"]
    assert all(event["request"] for event in events)
    settled(page)
    shot(page, "feedback-light")
    axe_finds_nothing(page)


@pytest.mark.exhaustive
def test_feedback_is_not_offered_where_it_is_not_taken(server, visit):
    page = visit(server(store=False).url + "/#/user/3")
    settled(page)
    assert page.locator(".entry button").count() == 0


@pytest.mark.exhaustive
def test_feedback_is_not_offered_to_a_key_that_may_only_read(keys, server, visit):
    page = visit(server().url + "/#/user/3", refusals=True)
    page.get_by_label("Key", exact=True).fill(keys["read"])
    page.keyboard.press("Enter")
    page.wait_for_selector(NAMES)
    settled(page)
    assert page.locator(".entry button").count() == 0


@pytest.mark.exhaustive
def test_feedback_that_is_refused_gets_an_error(server, visit):
    serving = server()
    page = visit(serving.url + "/#/user/3", refusals=True)
    settled(page)
    serving.faults["feedback"] = Refused(403, "This needs a key with the role write.")
    page.get_by_role("button", name="Like: ").first.click()
    page.get_by_role("alert").get_by_text("This needs a key with the role write").wait_for()


@pytest.mark.exhaustive
def test_the_service_is_polled_every_five_seconds_while_visible(server, visit):
    serving = server()
    page = visit(serving.url)
    page.clock.install()
    page.get_by_role("link", name="Service").click()
    page.locator(".stats").wait_for()
    hide = (
        "(how) => { Object.defineProperty(document, 'visibilityState', "
        "{ value: how, configurable: true }); "
        "document.dispatchEvent(new Event('visibilitychange')); }"
    )

    def requests_after(milliseconds: int) -> int:
        old = len(serving.bodies("service"))
        page.clock.run_for(milliseconds)
        page.wait_for_timeout(300)
        return len(serving.bodies("service")) - old

    assert requests_after(5100) == 1
    page.evaluate(hide, "hidden")
    assert requests_after(15_000) == 0
    page.evaluate(hide, "visible")
    assert requests_after(100) >= 0
    assert requests_after(5100) == 1
    page.get_by_role("link", name="Model").click()
    settled(page)
    assert requests_after(15_000) == 0
