#!/usr/bin/env python3
"""Recomputes the digests of digest.json without our Rust: python3 check_digest.py [FILE]"""

import hashlib
import json
import pathlib
import sys


def canonical(value):
    """JSON with keys in the order of their UTF-16 units, no blanks, RFC 8785 escapes."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(canonical(key) + ":" + canonical(value[key]) for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if value == 1 and type(value) is int:  # the version, the only number
        return "1"
    raise TypeError(f"not in an envelope: {value!r}")


def number_text(value):
    """The shortest digits that read back, laid out as ECMAScript does."""
    sign, value = ("-", -value) if value < 0 else ("", abs(float(value)))
    mantissa, exponent = (repr(value).split("e") + ["0"])[:2]
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent)  # where the point stands in the digits
    digits = whole + fraction
    point -= len(digits) - len(digits.lstrip("0"))
    digits = digits.strip("0")
    if not digits:
        return "0"
    if not -6 < point <= 21:
        rest = "." + digits[1:] if digits[1:] else ""
        return f"{sign}{digits[0]}{rest}e{point - 1:+d}"
    if point <= 0:
        return sign + "0." + "0" * -point + digits
    if point >= len(digits):
        return sign + digits.ljust(point, "0")
    return sign + digits[:point] + "." + digits[point:]


def answer_text(answer):
    [(kind, value)] = answer.items()
    if kind == "number":
        return number_text(value)
    return json.dumps(value) if kind in ("integer", "boolean") else value


def field_object(field):
    kind, presence = field["kind"], field.get("presence", "required")
    shown = {"name": field["name"], "label": field["label"], "help": field.get("help", "")}
    if isinstance(kind, dict):
        [(kind, shown["options"])] = kind.items()
    if isinstance(presence, dict):
        [(presence, default)] = presence.items()
        shown["default"] = answer_text(default)
    return shown | {"type": kind, "presence": presence}


def expected(given):
    """args_sha256, canonical text and digest of one input."""
    envelope = dict(given)
    args = envelope.pop("args")
    args_sha256 = "" if args is None else hashlib.sha256(args.encode()).hexdigest()
    envelope |= {"v": 1, "args_sha256": args_sha256, "form": [field_object(field) for field in given["form"]]}
    text = canonical(envelope)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"args_sha256": args_sha256, "canonical": text, "digest": digest}


def main(path):
    cases = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    failed = [case["name"] for case in cases if any(case[key] != value for key, value in expected(case["input"]).items())]
    for name in failed:
        print(f"failed: {name}")
    print(f"{len(cases) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("digest.json")))
