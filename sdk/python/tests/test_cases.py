"""Plays the cases of sdk/testdata/cases.json, which all SDKs share, against a server that answers as scripted."""

import http.server
import json
import pathlib
import threading
import unittest
import urllib.parse

import parley

TESTDATA = pathlib.Path(__file__).parents[2] / "testdata"
CASES = json.loads((TESTDATA / "cases.json").read_text(encoding="utf-8"))
OPERATIONS = json.loads((TESTDATA / "operations.json").read_text(encoding="utf-8"))
ERRORS = {"ArgumentError": ValueError}


class Clock:
    """A clock that only sleeping and the server move."""

    def __init__(self):
        self.now, self.waits = 1000.0, []

    def sleep(self, seconds):
        self.now += seconds
        self.waits.append(seconds)


class Handler(http.server.BaseHTTPRequestHandler):
    def handle_any(self):
        self.close_connection = True
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.command, self.path, self.headers, body))
        if not self.server.script:
            self.send_error(599, "more requests than the case expects")
            return
        step = self.server.script.pop(0)
        self.server.clock.now += step.get("elapse", 0)
        if "hang" in step:
            self.server.stopped.wait()
        if "hang" in step or "close" in step:
            return
        answer = json.dumps(step["body"]) if "body" in step else step.get("text", "")
        self.send_response(step.get("status", 200))
        for name, value in step.get("headers", {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.encode()) + (10 if "cut" in step else 0)))
        self.end_headers()
        self.wfile.write(answer.encode())

    do_GET = do_POST = do_PATCH = do_DELETE = handle_any

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, script, clock):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.clock, self.seen, self.stopped = list(script), clock, [], threading.Event()

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.shutdown()
        self.server_close()


def connect(server, clock, case):
    return parley.Parley(
        CASES["api_key"],
        f"http://127.0.0.1:{server.server_port}/v1",
        clock=lambda: clock.now,
        sleep=clock.sleep,
        rand=lambda: case.get("random", CASES["random"]),
        **case.get("settings", {}),
    )


def snake(name):
    return "".join("_" + c.lower() if c.isupper() else c for c in name).replace("_a_p_i", "_api")


def call(client, wanted):
    arguments = list(wanted.get("arguments", []))
    if "body" in wanted:
        arguments.append(wanted["body"])
    if "upload" in wanted:
        upload = wanted["upload"]
        arguments.append(parley.Upload(upload["filename"], upload["content"].encode(), upload["fields"]))
    named = dict(wanted.get("query", {}))
    if "idempotency_key" in wanted:
        named["idempotency_key"] = wanted["idempotency_key"]
    return getattr(client, snake(wanted["operation"]))(*arguments, **named)


class Cases(unittest.TestCase):
    maxDiff = None

    def check_subset(self, wanted, got, place="result"):
        if isinstance(wanted, dict):
            for key, value in wanted.items():
                self.assertIn(key, got, place)
                self.check_subset(value, got[key], f"{place}.{key}")
        elif isinstance(wanted, list):
            self.assertEqual(len(wanted), len(got), place)
            for index, value in enumerate(wanted):
                self.check_subset(value, got[index], f"{place}[{index}]")
        else:
            self.assertEqual(wanted, got, place)

    def check_error(self, wanted, error):
        if wanted is None:
            self.assertIsNone(error)
            return
        name = wanted["class"]
        self.assertIs(type(error), ERRORS.get(name) or getattr(parley, name))
        for field, value in wanted.items():
            if field != "class":
                self.assertEqual(value, getattr(error, field), field)

    def check_requests(self, case, seen, script):
        expect = case["expect"]
        if "requests" not in expect:
            return
        self.assertEqual(len(expect["requests"]), len(seen), "number of requests")
        self.assertEqual([], script, "answers that were not asked for")
        for wanted, (method, target, headers, body) in zip(expect["requests"], seen):
            path, _, query = target.partition("?")
            self.assertEqual(wanted.get("method", method), method)
            self.assertEqual(wanted.get("path", path), path)
            self.assertEqual(f"Bearer {CASES['api_key']}", headers["Authorization"])
            self.assertTrue(headers["User-Agent"].startswith("parley-python/"))
            for name, value in wanted.get("headers", {}).items():
                self.assertEqual(value, headers[name], name)
            for name in wanted.get("absent", []):
                self.assertNotIn(name, headers)
            if "query" in wanted:
                self.assertEqual(wanted["query"], dict(urllib.parse.parse_qsl(query, strict_parsing=bool(query))))
            if "body" in wanted:
                self.assertEqual(wanted["body"], json.loads(body))
            for text in wanted.get("contains", []):
                self.assertIn(text.encode(), body)
            if method == "POST":
                self.assertRegex(headers["Idempotency-Key"], "^[!-~]{1,255}$")
        if case["kind"] == "request":  # all attempts of one call are the same
            for method, target, headers, body in seen[1:]:
                first = seen[0]
                self.assertEqual((first[0], first[1], first[3]), (method, target, body))
                self.assertEqual(first[2]["Idempotency-Key"], headers["Idempotency-Key"])

    def play(self, case):
        clock = Clock()
        result, items, error = None, [], None
        with Server(case["server"], clock) as server:
            client = connect(server, clock, case)
            try:
                if case["kind"] == "request":
                    result = call(client, case["call"])
                elif "page" in case["expect"]:
                    result = call(client, case["call"]).page()
                else:
                    for item in call(client, case["call"]):
                        items.append(item["id"])
                        if len(items) == case.get("take"):
                            break
            except (parley.ParleyError, ValueError) as raised:
                error = raised
        expect = case["expect"]
        self.check_error(expect.get("error"), error)
        self.check_requests(case, server.seen, server.script)
        if "waits" in expect:
            self.assertEqual(expect["waits"], clock.waits)
        if "items" in expect:
            self.assertEqual(expect["items"], items)
        self.check_subset(expect.get("result", expect.get("page", result)), result)

    def verify(self, case):
        body = bytes.fromhex(case["body_hex"]) if "body_hex" in case else case.get("body", CASES["body"]).encode()
        options = {"tolerance": case["tolerance"]} if "tolerance" in case else {}
        expect = case["expect"]
        try:
            event = parley.verify_webhook(case["headers"], body, case["secrets"], clock=lambda: case["now"], **options)
        except parley.WebhookError as refused:
            self.assertEqual(expect.get("error"), refused.kind)
            return
        self.assertNotIn("error", expect)
        self.check_subset(expect["event"], vars(event))

    def test_cases(self):
        self.assertGreaterEqual(len(CASES["cases"]), 60)
        for case in CASES["cases"]:
            with self.subTest(case["name"]):
                self.verify(case) if case["kind"] == "webhook" else self.play(case)

    def test_two_calls_have_two_idempotency_keys(self):
        with Server([{"body": {}}, {"body": {}}], Clock()) as server:
            client = connect(server, server.clock, {})
            client.create_label({"name": "a"})
            client.create_label({"name": "a"})
        keys = {headers["Idempotency-Key"] for _, _, headers, _ in server.seen}
        self.assertEqual(2, len(keys))

    def test_every_operation_of_the_contract(self):
        clock = Clock()
        with Server([{}] * len(OPERATIONS), clock) as server:
            client = connect(server, clock, {"settings": {"max_retries": 0}})
            for operation in OPERATIONS:
                with self.subTest(operation["operation"]):
                    wanted = {"operation": operation["operation"], "arguments": operation["arguments"]}
                    wanted |= {key: operation[key] for key in ("body", "upload") if key in operation}
                    status, answer = operation["status"], operation["answer"]
                    server.script[0] = {"status": status, "body": answer, "headers": {"Location": "x"}}
                    made = call(client, wanted)
                    if isinstance(made, parley.List):
                        self.assertEqual([], list(made))
                    method, path, _, _ = server.seen[-1]
                    self.assertEqual((operation["method"], operation["path"]), (method, path))
        self.assertGreaterEqual(len(server.seen), 61)


if __name__ == "__main__":
    unittest.main()
