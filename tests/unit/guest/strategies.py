"""What a hostile guest may answer."""

from __future__ import annotations

import json

from hypothesis import strategies as st

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["count", "eof", "buf-b64", "version", "name", "enabled", "supported_commands", "class"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)

raw_answers = (
    st.text(max_size=200)
    | st.binary(max_size=200)
    | anything.map(lambda value: json.dumps({"return": value}))
    | anything.map(lambda value: json.dumps({"error": value}))
    | anything.map(json.dumps)
    | st.sampled_from(
        [
            "[" * 100_000,
            '{"return":' * 50_000,
            "[" * 1_000_000,
            '{"return": ' + "9" * 10_000 + "}",
            '{"return": NaN}',
            '{"return": -Infinity}',
            '{"return": 1e999}',
            '{"return": {"count": 3, "eof": true, "buf-b64": "@@@@"}}',
            '{"return": {"count": 3, "eof": true, "buf-b64": "YWJj\\n"}}',
            '{"return": {"count": -1, "eof": true, "buf-b64": ""}}',
            '{"return": {"count": true, "eof": true, "buf-b64": "YQ=="}}',
            '{"return": {"count": 0, "eof": false}}',
            '{"return": "\\ud800"}',
            "",
        ]
    )
)
