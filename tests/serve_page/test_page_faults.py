"""The page with servers that are slow, refuse or fail, and with ids of all kinds."""

from __future__ import annotations

import pytest

from .page_steps import NAMES, axe_finds_nothing, changed, names, settled, spelled
from .page_stub import KEY, READER, ProblemError
from .page_world import GREAT, HOSTILE

SECRET = "sessionStorage.getItem('sdgar.key')"


def test_a_key_is_requested_and_kept_in_the_tab_only(stub, visit, shot):
    server = stub(key=True)
    page = visit(server.url + "#/user/3", refusals=True)
    dialog = page.get_by_role("dialog", name="A key, please")
    dialog.wait_for()
    shot(page, "key-light")
    axe_finds_nothing(page)
    page.keyboard.type("sdgar_wrong")
    page.keyboard.press("Enter")
    page.get_by_text("The server did not accept this key").wait_for()
    page.get_by_label("Key", exact=True).fill(KEY)
    page.get_by_role("button", name="Use this key").click()
    page.wait_for_selector(NAMES)
    assert page.evaluate(SECRET) == KEY
    assert page.evaluate("JSON.stringify(localStorage) + document.cookie") == "{}"
    assert KEY not in page.url
    page.reload()
    page.wait_for_selector(NAMES)
    assert not dialog.is_visible()
    page.get_by_role("button", name="Change the key").click()
    dialog.wait_for()
    page.keyboard.press("Escape")
    assert page.evaluate(SECRET) == KEY


@pytest.mark.exhaustive
def test_without_a_key_there_is_a_sentence(stub, visit):
    page = visit(stub(key=True).url + "#/model", refusals=True)
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
def test_an_error_is_a_sentence_and_can_be_tried_again(path, where, stub, visit, shot):
    server = stub()
    server.faults[path] = ProblemError(503, "The server is busy. Ask again soon.", "overloaded")
    page = visit(server.url + where, refusals=True)
    alert = page.get_by_role("alert")
    alert.get_by_text("The server is busy. Ask again soon.").wait_for()
    settled(page)
    shot(page, f"error-{path.split('/')[0]}-light")
    axe_finds_nothing(page)
    del server.faults[path]
    alert.get_by_role("button", name="Try again").click()
    alert.wait_for(state="detached")


@pytest.mark.exhaustive
def test_a_server_that_is_gone_is_named(stub, visit):
    server = stub()
    page = visit(server.url, refusals=True)
    settled(page)
    page.route("**/v1/**", lambda route: route.abort())
    page.get_by_role("link", name="Model").click()
    page.get_by_text("The server does not answer.").wait_for()


@pytest.mark.exhaustive
def test_an_answer_that_comes_late_is_dropped(stub, visit):
    server = stub()
    page = visit(server.url + "#/user/3")
    settled(page)
    before = names(page)
    server.delays["recommend"] = [1.5, 0.0]
    page.get_by_label("Popularity").focus()
    page.keyboard.press("End")
    page.wait_for_timeout(400)  # it is before_moves for after a rest
    assert server.bodies("recommend")[-1]["popularity"] == 1
    page.keyboard.press("Home")
    after = changed(page, before)
    assert server.bodies("recommend")[-1]["popularity"] == -1
    page.wait_for_timeout(1500)
    assert names(page) == after


@pytest.mark.exhaustive
def test_quick_moves_send_one_request(stub, visit):
    server = stub()
    page = visit(server.url + "#/user/3")
    settled(page)
    before_moves = len(server.bodies("recommend"))
    before = names(page)
    page.get_by_label("Diversity").focus()
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    changed(page, before)
    assert len(server.bodies("recommend")) <= before_moves + 2
    assert server.bodies("recommend")[-1]["diversity"] == 0.4


@pytest.mark.exhaustive
def test_bones_hold_the_place_of_a_slow_list(stub, visit, shot):
    page = visit(stub(delay=1.0).url + "#/user/3")
    page.locator(".skeleton").first.wait_for()
    shot(page, "loading-light")
    settled(page)
    assert len(names(page)) == 10


def test_an_unknown_user_gets_popular_items_and_a_note(stub, visit, shot):
    page = visit(stub().url + "#/user/nobody", refusals=True)
    settled(page)
    assert "nothing of this person" in page.locator(".basis").text_content()
    assert "No history" in page.locator(".side").text_content()
    assert page.locator(".why").count() == 0
    shot(page, "unknown-light")
    axe_finds_nothing(page)


@pytest.mark.exhaustive
def test_items_that_are_unknown_are_marked(stub, visit):
    page = visit(stub().url + "#/try?i=3&i=nothing", refusals=True)
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
def test_ids_of_users_go_back_as_they_are(user, stub, visit):
    server = stub()
    page = visit(server.url + f"#/user/{spelled(user)}")
    settled(page)
    assert server.bodies("recommend")[-1]["users"] == [user]
    assert type(server.bodies("recommend")[-1]["users"][0]) is type(user)
    assert page.locator("h1").text_content() == str(user)
    page.get_by_role("button", name="Like: ").first.click()
    page.get_by_text("Folded in from feedback").wait_for()
    [event] = server.world.feedback
    assert event["user"] == user
    assert type(event["user"]) is type(user)


@pytest.mark.parametrize(
    "item", [17, "17", HOSTILE, GREAT, ".."], ids=["integer", "digits", "hostile", "great", "dots"]
)
def test_ids_of_items_go_back_as_they_are(item, stub, visit):
    server = stub()
    page = visit(server.url + f"#/item/{spelled(item)}")
    settled(page)
    assert server.bodies("similar")[-1]["items"] == [item]
    assert type(server.bodies("similar")[-1]["items"][0]) is type(item)
    page.get_by_role("link", name="Start a history with it").click()
    page.wait_for_selector(NAMES)
    settled(page)
    assert server.bodies("recommend")[-1]["histories"] == [{"items": [item]}]
    page.reload()
    page.wait_for_selector(NAMES)
    assert server.bodies("recommend")[-1]["histories"] == [{"items": [item]}]
    assert page.locator("main img[onerror]").count() == 0


@pytest.mark.exhaustive
def test_an_id_that_looks_like_html_is_found_and_shown_as_text(stub, visit):
    page = visit(stub().url)
    settled(page)
    page.get_by_role("combobox").fill("a/b")
    page.get_by_role("option").filter(has_text="<img src=x").first.click()
    page.get_by_role("heading", level=1, name=HOSTILE).wait_for()


def test_feedback_changes_the_list(stub, visit, shot):
    server = stub()
    page = visit(server.url + "#/user/3")
    settled(page)
    before = names(page)
    page.locator(".entry").first.get_by_role("button", name="Not for me").click()
    after = changed(page, before)
    assert before[0] not in after
    page.locator(".entry").first.get_by_role("button", name="Like").focus()
    page.keyboard.press("Enter")
    changed(page, after)
    assert after[0] in page.locator(".past", has_text="since training").first.text_content()
    assert [event["kind"] for event in server.world.feedback] == ["dislike", "like"]
    assert all(event["request"].startswith("r") for event in server.world.feedback)
    settled(page)
    shot(page, "feedback-light")
    axe_finds_nothing(page)


@pytest.mark.exhaustive
def test_feedback_is_not_offered_where_it_is_not_taken(stub, visit):
    page = visit(stub(feedback=False).url + "#/user/3")
    settled(page)
    assert page.locator(".entry button").count() == 0


@pytest.mark.exhaustive
def test_a_key_that_may_only_read_gets_an_error(stub, visit):
    page = visit(stub(key=True).url + "#/user/3", refusals=True)
    page.get_by_label("Key", exact=True).fill(READER)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Like: ").first.click()
    page.get_by_role("alert").get_by_text("This needs a key of the role write").wait_for()


@pytest.mark.exhaustive
def test_the_service_is_polled_every_five_seconds_while_visible(stub, visit):
    server = stub()
    page = visit(server.url)
    page.clock.install()
    page.get_by_role("link", name="Service").click()
    page.locator(".stats").wait_for()
    hide = (
        "(how) => { Object.defineProperty(document, 'visibilityState', "
        "{ value: how, configurable: true }); "
        "document.dispatchEvent(new Event('visibilitychange')); }"
    )

    def requests_after(milliseconds: int) -> int:
        old = len(server.bodies("service"))
        page.clock.run_for(milliseconds)
        page.wait_for_timeout(300)
        return len(server.bodies("service")) - old

    assert requests_after(5100) == 1
    page.evaluate(hide, "hidden")
    assert requests_after(15_000) == 0
    page.evaluate(hide, "visible")
    assert requests_after(100) >= 0
    assert requests_after(5100) == 1
    page.get_by_role("link", name="Model").click()
    settled(page)
    assert requests_after(15_000) == 0
