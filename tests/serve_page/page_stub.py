"""A stub of the server, with synthetic data: it follows the contract of the API.

    python -m tests.serve_page.page_stub 8765

serves the page. ``Stub`` can be slow, refuse requests without a key, and fail for some paths.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from .page_facts import ABILITIES, MODEL, SERVICE
from .page_world import Item, World, world

PAGE = Path(__file__).parents[2] / "src" / "sdgar" / "serve" / "page"
POLICY = "default-src 'self'; img-src 'self' data: https: http:"
KEY = "sdgar_test_0123456789"
READER = "sdgar_read_0123456789"
TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".html": "text/html",
}


class ProblemError(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, detail: str, code: str) -> None:
        super().__init__(detail)
        self.status, self.detail, self.code = status, detail, code


class Stub:
    """The server: its data and its behaviour."""

    def __init__(self, *, key: bool = False, feedback: bool = True, delay: float = 0.0) -> None:
        self.world: World = world()
        self.needs_key, self.accepts_feedback, self.delay = key, feedback, delay
        self.delays: dict[str, list[float]] = {}
        """The delays of the next requests to a path, in order."""
        self.faults: dict[str, ProblemError] = {}
        """The paths that fail, until they are taken out."""
        self.requests: list[tuple[str, Any]] = []
        """The path and body of every request to the API."""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def bodies(self, path: str) -> list[Any]:
        return [body for where, body in self.requests if where == path]

    def answer(self, path: str, query: dict[str, str], body: Any, key: str) -> Any:
        self.requests.append((path, body))
        waits = self.delays.get(path)
        time.sleep(waits.pop(0) if waits else self.delay)
        if self.needs_key and key not in (KEY, READER):
            raise ProblemError(401, "Give a valid API key.", "unauthorized")
        if path in self.faults:
            raise self.faults[path]
        if path == "feedback" and (not self.accepts_feedback or key == READER):
            raise ProblemError(
                403, "This needs a key of the role write; this one has read.", "forbidden"
            )
        side, _, id = path.partition("/")
        if id:
            return self._described(side, unquote(id))
        return getattr(self, f"_{path}")(body if body is not None else query)

    def _described(self, side: str, id: str) -> Any:
        if side == "items":
            item = self.world.known_item(id)
            if item is None:
                raise ProblemError(404, f"Nothing is known of item {id!r}.", "unknown_item")
            return self._item(item)
        user = self.world.known_user(id)
        if user is None:
            raise ProblemError(404, f"Nothing is known of user {id!r}.", "unknown_user")
        return self._user(user)

    def _item(self, item: Item) -> dict[str, Any]:
        events = sum(e["item"] == item.id for e in self.world.feedback)
        return {
            "id": item.id, "name": item.name, "picture": item.picture, "known": True,
            "categories": item.categories, "hidden": False, "events": events,
            "features": {"year": 1950 + item.people % 70, "studio": "Example Pictures"},
        }  # fmt: skip

    def _user(self, user: Any) -> dict[str, Any]:
        return {
            "id": user, "name": self.world.users[user], "picture": None, "categories": [],
            "features": {}, "hidden": False, "known": True,
            "events": len(self.world.events_of(user)),
        }  # fmt: skip

    def _items(self, query: dict[str, str]) -> Any:
        text, limit = query.get("query", "").lower(), int(query.get("limit", 20))
        found = [
            i for i in self.world.items.values()
            if str(i.id).lower().startswith(text) or text in (i.name or "").lower()
        ]  # fmt: skip
        return {"found": [self._item(item) for item in found[:limit]]}

    def _users(self, query: dict[str, str]) -> Any:
        text, limit = query.get("query", "").lower(), int(query.get("limit", 20))
        found = [
            u for u, name in self.world.users.items()
            if str(u).lower().startswith(text) or text in (name or "").lower()
        ]  # fmt: skip
        return {"found": [self._user(user) for user in found[:limit]]}

    def _history(self, query: dict[str, str]) -> Any:
        user = self.world.known_user(query["user"])
        has = self.world.has(query["user"])
        old = [] if user is None else self.world.histories[user]
        entries = [
            {**self._details(self.world.items[i]), "from": "training" if i in old else "feedback"}
            for i in has
        ]
        limit = int(query.get("limit", 100))
        return {
            "user": query["user"] if user is None else user, "items": entries[-limit:],
            "total": len(has), "known": user is not None,
        }  # fmt: skip

    def _details(self, item: Item) -> dict[str, Any]:
        return {
            "item": item.id, "name": item.name, "picture": item.picture,
            "categories": item.categories,
        }  # fmt: skip

    def _categories(self, query: dict[str, str]) -> Any:
        names = sorted({name for item in self.world.items.values() for name in item.categories})
        counts = {n: sum(n in i.categories for i in self.world.items.values()) for n in names}
        return {"categories": [{"name": name, "items": n} for name, n in counts.items()]}

    def _popular(self, query: dict[str, str]) -> Any:
        best = sorted(self.world.items.values(), key=lambda i: -i.people)[: int(query["k"])]
        return {
            "items": [
                {**self._details(i), "score": i.people, "rank": n} for n, i in enumerate(best, 1)
            ]
        }

    def _latest(self, query: dict[str, str]) -> Any:
        last = list(self.world.items.values())[: int(query["k"])]
        return {
            "items": [
                {**self._details(i), "score": 1.78e9 - 86_400 * n, "rank": n}
                for n, i in enumerate(last, 1)
            ]
        }

    def _recommend(self, body: Any) -> Any:
        unknown: dict[str, list[Any]] = {"users": [], "items": []}
        if "users" in body:
            user = body["users"][0]
            history, disliked = self.world.has(user), self._disliked(user)
            known = self.world.known_user(user)
            liked = [e for e in self.world.events_of(user) if e["kind"] != "dislike"]
            basis = "feedback" if liked else "model" if known is not None else "popular"
            if known is None:
                unknown["users"] = [user]
        else:
            user, disliked = body["histories"][0].get("id"), set()
            given = body["histories"][0]["items"]
            unknown["items"] = [i for i in given if self.world.known_item(i) is None]
            found = [self.world.known_item(i) for i in given]
            history = [item.id for item in found if item is not None]
            basis = "history" if history else "popular"
        entries = self._ranked(history, disliked, body)
        return {
            "request": f"r{len(self.requests)}", "unknown": unknown,
            "lists": [{
                "user": user, "items": entries, "short": len(entries) < body["k"],
                "basis": basis, "model": "2026-11-17-4f2a", "variant": body.get("variant", "main"),
            }],
        }  # fmt: skip

    def _disliked(self, user: Any) -> set[Any]:
        return {e["item"] for e in self.world.events_of(user) if e["kind"] == "dislike"}

    def _ranked(self, history: list[Any], without: set[Any], body: Any) -> list[dict[str, Any]]:
        left_out = set(body.get("exclude_categories") or [])
        most = max(item.people for item in self.world.items.values())
        scored = []
        for item in self.world.items.values():
            if item.id in history or item.id in without or left_out & set(item.categories):
                continue
            score = self.world.score(history, item)
            spread = score / most if not history else score
            rank = spread + body["popularity"] * (item.people / most) * 0.5
            rank += body["diversity"] * ((item.people * 7919) % 97) / 97
            scored.append((rank, score, item))
        scored.sort(key=lambda one: -one[0])
        entries = []
        for place, (_, score, item) in enumerate(scored[: body["k"]], 1):
            entry = {**self._details(item), "score": score, "rank": place}
            reasons = self.world.reasons(history, item, body["reasons"])
            if reasons:
                entry["because"] = [
                    {name: r[name] for name in ("item", "name", "share")} for r in reasons
                ]
            if place == 3 and body["diversity"] > 0:
                entry["rules"] = ["moved by diversity"]
            entries.append(entry)
        return entries

    def _explain(self, body: Any) -> Any:
        if "user" in body:
            history, basis = self.world.has(body["user"]), "model"
        else:
            found = [self.world.known_item(i) for i in body["history"]]
            history, basis = [item.id for item in found if item], "history"
        explained = []
        for id in body["items"]:
            item = self.world.items[id]
            score = self.world.score(history, item)
            because = self.world.reasons(history, item, body["reasons"])
            rest = score - sum(reason["share"] for reason in because)
            explained.append(
                {**self._details(item), "score": score, "because": because, "rest": rest}
            )
        return {"user": body.get("user"), "items": explained, "model": "m", "basis": basis}

    def _similar(self, body: Any) -> Any:
        if body["by"] == "weights":
            raise ProblemError(
                409, "This model has no weights between items. Compare by vectors.", "no_weights"
            )
        item = self.world.known_item(body["items"][0])
        alike: list[Any] = []
        if item is not None:
            others = [o for o in self.world.items.values() if o is not item]
            others.sort(key=lambda other: -self.world.score([item.id], other))
            alike = [
                {**self._details(o), "score": self.world.score([item.id], o), "rank": n}
                for n, o in enumerate(others[: body["k"]], 1)
            ]
        basis = "unknown" if item is None else "model"
        one = {"item": body["items"][0], "similar": alike, "short": False, "basis": basis}
        return {"lists": [one], "by": "vectors", "model": "2026-11-17-4f2a"}

    def _feedback(self, body: Any) -> Any:
        self.world.feedback += body["events"]
        return {"accepted": len(body["events"]), "repeated": 0}

    def _model(self, query: dict[str, str]) -> Any:
        return {**MODEL, "abilities": {**ABILITIES, "feedback": self.accepts_feedback}}

    def _service(self, query: dict[str, str]) -> Any:
        return SERVICE


def _handler(stub: Stub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            self._answer(json.loads(self.rfile.read(length)))

        def _answer(self, body: Any) -> None:
            parts = urlsplit(self.path)
            if not parts.path.startswith("/v1/"):
                return self._page(parts.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            key = self.headers.get("authorization", "")[7:]
            try:
                found = stub.answer(parts.path[4:], query, body, key)
            except ProblemError as problem:
                said = {
                    "type": "about:blank", "title": HTTPStatus(problem.status).phrase,
                    "status": problem.status, "detail": problem.detail, "code": problem.code,
                }  # fmt: skip
                return self._send(problem.status, "application/problem+json", json.dumps(said))
            return self._send(200, "application/json", json.dumps(found))

        def _page(self, path: str) -> None:
            name = "index.html" if path == "/" else path.removeprefix("/page/")
            file = PAGE / name
            if "/" in name or not file.is_file():
                return self._send(404, "text/plain", "There is no such file.")
            return self._send(200, TYPES[file.suffix], file.read_text(encoding="utf-8"))

        def _send(self, status: int, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("content-type", f"{kind}; charset=utf-8")
            self.send_header("content-length", str(len(data)))
            self.send_header("content-security-policy", POLICY)
            self.send_header("cache-control", "no-store")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Log nothing."""

    return Handler


if __name__ == "__main__":
    serving = Stub(delay=0.15)
    sys.stdout.write(f"{serving.url}\n")
    sys.stdout.flush()
    threading.Event().wait()
